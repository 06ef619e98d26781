// Embeds the files of Sources/Bus/Lua. This is the only list of them. C embeds them because an array of bytes in Swift
// took the compiler longer than the rest of Bus.
//
// Each file is one block, so the order matters only where a file uses another one while Redis loads the library. Tests
// compare the order with what the headers of the files say.

#include "CLua.h"

static const char functions[] = {
#embed "../Bus/Lua/core/call.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/isolation.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/history.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/events.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/jobs.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/settings.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/replies.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/reply_bytes.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/responses.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/url_index.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/rejections.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/deletions.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/webhooks.lua" suffix(, '\n', )
#embed "../Bus/Lua/core/states.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/json.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/raw.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/urls.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/faults.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/gate.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/defaults.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/kinds.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/envelopes.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/pushes.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/order.lua" suffix(, '\n', )
#embed "../Bus/Lua/batches/batches.lua" suffix(, '\n', )
#embed "../Bus/Lua/batches/operations.lua" suffix(, '\n', )
#embed "../Bus/Lua/limits/permits.lua" suffix(, '\n', )
#embed "../Bus/Lua/limits/starts.lua" suffix(, '\n', )
#embed "../Bus/Lua/limits/hosts.lua" suffix(, '\n', )
#embed "../Bus/Lua/limits/groups.lua" suffix(, '\n', )
#embed "../Bus/Lua/limits/rates.lua" suffix(, '\n', )
#embed "../Bus/Lua/settle/announcements.lua" suffix(, '\n', )
#embed "../Bus/Lua/settle/reports.lua" suffix(, '\n', )
#embed "../Bus/Lua/settle/steps.lua" suffix(, '\n', )
#embed "../Bus/Lua/claim/claims.lua" suffix(, '\n', )
#embed "../Bus/Lua/settle/settles.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/budget.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/losses.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/colocated.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/disconnected.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/workers.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/control.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/runs.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/due.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/rechecks.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/schedules.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/pacer.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/tick.lua" suffix(, '\n', )
#embed "../Bus/Lua/tick/inspection.lua" suffix(, '\n', )
    0
};

const char *chaul_lua(void) { return functions; }
