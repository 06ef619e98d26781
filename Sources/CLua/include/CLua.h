#pragma once

/// The Lua that defines what the functions share. It ends with a zero.
const char *chaul_lua_prelude(void);

/// All other Lua of the functions, in the order in which Redis reads it. It ends with a zero.
const char *chaul_lua_functions(void);
