#pragma once

/// The Lua code that all functions share, zero-terminated.
const char *chaul_lua_prelude(void);

/// The rest of the functions' Lua code in its order of definition, zero-terminated.
const char *chaul_lua_functions(void);
