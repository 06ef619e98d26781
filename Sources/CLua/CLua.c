// Embeds the files of Sources/Bus/Lua. This is the only list of them. C embeds them because an array of bytes in Swift
// took the compiler longer than the rest of Bus.

#include "CLua.h"

static const char prelude[] = {
#embed "../Bus/Lua/prelude.lua"
    , 0
};

// The order matters: Lua must see a local function before its first use.
static const char functions[] = {
#embed "../Bus/Lua/isolate.lua" suffix(, '\n', )
#embed "../Bus/Lua/states.lua" suffix(, '\n', )
#embed "../Bus/Lua/json.lua" suffix(, '\n', )
#embed "../Bus/Lua/raw.lua" suffix(, '\n', )
#embed "../Bus/Lua/url.lua" suffix(, '\n', )
#embed "../Bus/Lua/faults.lua" suffix(, '\n', )
#embed "../Bus/Lua/gate.lua" suffix(, '\n', )
#embed "../Bus/Lua/permits.lua" suffix(, '\n', )
#embed "../Bus/Lua/replies.lua" suffix(, '\n', )
#embed "../Bus/Lua/push.lua" suffix(, '\n', )
#embed "../Bus/Lua/order.lua" suffix(, '\n', )
#embed "../Bus/Lua/batches.lua" suffix(, '\n', )
#embed "../Bus/Lua/kinds.lua" suffix(, '\n', )
#embed "../Bus/Lua/defaults.lua" suffix(, '\n', )
#embed "../Bus/Lua/starts.lua" suffix(, '\n', )
#embed "../Bus/Lua/hosts.lua" suffix(, '\n', )
#embed "../Bus/Lua/claiming.lua" suffix(, '\n', )
#embed "../Bus/Lua/recheck.lua" suffix(, '\n', )
#embed "../Bus/Lua/report.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim.lua" suffix(, '\n', )
#embed "../Bus/Lua/settle.lua" suffix(, '\n', )
#embed "../Bus/Lua/budget.lua" suffix(, '\n', )
#embed "../Bus/Lua/responses.lua" suffix(, '\n', )
#embed "../Bus/Lua/deletions.lua" suffix(, '\n', )
#embed "../Bus/Lua/lose.lua" suffix(, '\n', )
#embed "../Bus/Lua/history.lua" suffix(, '\n', )
#embed "../Bus/Lua/heartbeat.lua" suffix(, '\n', )
#embed "../Bus/Lua/silence.lua" suffix(, '\n', )
#embed "../Bus/Lua/control.lua" suffix(, '\n', )
#embed "../Bus/Lua/runs.lua" suffix(, '\n', )
#embed "../Bus/Lua/report_runs.lua" suffix(, '\n', )
#embed "../Bus/Lua/reap.lua" suffix(, '\n', )
#embed "../Bus/Lua/colocated.lua" suffix(, '\n', )
#embed "../Bus/Lua/promote.lua" suffix(, '\n', )
#embed "../Bus/Lua/overdue.lua" suffix(, '\n', )
#embed "../Bus/Lua/expire.lua" suffix(, '\n', )
#embed "../Bus/Lua/trim.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick.lua" suffix(, '\n', )
#embed "../Bus/Lua/register.lua" suffix(, '\n', )
#embed "../Bus/Lua/leave.lua" suffix(, '\n', )
#embed "../Bus/Lua/announce.lua" suffix(, '\n', )
#embed "../Bus/Lua/rates.lua" suffix(, '\n', )
#embed "../Bus/Lua/inspect.lua" suffix(, '\n', )
#embed "../Bus/Lua/recover.lua" suffix(, '\n', )
    0
};

const char *chaul_lua_prelude(void) { return prelude; }

const char *chaul_lua_functions(void) { return functions; }
