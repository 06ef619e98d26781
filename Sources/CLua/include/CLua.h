#pragma once

/// The Lua files in the order of the library, zero-terminated.
const char *chaul_lua(void);
