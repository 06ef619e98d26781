// Embeds the files of Sources/Web/Page, with the names under which they are served. This is the only list of them. All
// are text. C embeds them because arrays of bytes in Swift took the compiler longer than the rest of Web.

#include "CPage.h"

#include <stddef.h>

static const struct chaul_page_file files[] = {
    {"actions.js", (const char[]) {
#embed "../Web/Page/actions.js" suffix(, 0)
    }},
    {"answer.js", (const char[]) {
#embed "../Web/Page/answer.js" suffix(, 0)
    }},
    {"api.js", (const char[]) {
#embed "../Web/Page/api.js" suffix(, 0)
    }},
    {"app.css", (const char[]) {
#embed "../Web/Page/app.css" suffix(, 0)
    }},
    {"attention.js", (const char[]) {
#embed "../Web/Page/attention.js" suffix(, 0)
    }},
    {"bars.js", (const char[]) {
#embed "../Web/Page/bars.js" suffix(, 0)
    }},
    {"batches.js", (const char[]) {
#embed "../Web/Page/batches.js" suffix(, 0)
    }},
    {"changes.js", (const char[]) {
#embed "../Web/Page/changes.js" suffix(, 0)
    }},
    {"charts.js", (const char[]) {
#embed "../Web/Page/charts.js" suffix(, 0)
    }},
    {"dialogs.js", (const char[]) {
#embed "../Web/Page/dialogs.js" suffix(, 0)
    }},
    {"dom.js", (const char[]) {
#embed "../Web/Page/dom.js" suffix(, 0)
    }},
    {"format.js", (const char[]) {
#embed "../Web/Page/format.js" suffix(, 0)
    }},
    {"groups.js", (const char[]) {
#embed "../Web/Page/groups.js" suffix(, 0)
    }},
    {"icon.svg", (const char[]) {
#embed "../Web/Page/icon.svg" suffix(, 0)
    }},
    {"icons.js", (const char[]) {
#embed "../Web/Page/icons.js" suffix(, 0)
    }},
    {"index.html", (const char[]) {
#embed "../Web/Page/index.html" suffix(, 0)
    }},
    {"job.js", (const char[]) {
#embed "../Web/Page/job.js" suffix(, 0)
    }},
    {"jobs.js", (const char[]) {
#embed "../Web/Page/jobs.js" suffix(, 0)
    }},
    {"keys.js", (const char[]) {
#embed "../Web/Page/keys.js" suffix(, 0)
    }},
    {"live.js", (const char[]) {
#embed "../Web/Page/live.js" suffix(, 0)
    }},
    {"main.js", (const char[]) {
#embed "../Web/Page/main.js" suffix(, 0)
    }},
    {"manifest.webmanifest", (const char[]) {
#embed "../Web/Page/manifest.webmanifest" suffix(, 0)
    }},
    {"numbers.js", (const char[]) {
#embed "../Web/Page/numbers.js" suffix(, 0)
    }},
    {"overview.js", (const char[]) {
#embed "../Web/Page/overview.js" suffix(, 0)
    }},
    {"push.js", (const char[]) {
#embed "../Web/Page/push.js" suffix(, 0)
    }},
    {"queues.js", (const char[]) {
#embed "../Web/Page/queues.js" suffix(, 0)
    }},
    {"rejected.js", (const char[]) {
#embed "../Web/Page/rejected.js" suffix(, 0)
    }},
    {"remedy.js", (const char[]) {
#embed "../Web/Page/remedy.js" suffix(, 0)
    }},
    {"schedules.js", (const char[]) {
#embed "../Web/Page/schedules.js" suffix(, 0)
    }},
    {"settings.js", (const char[]) {
#embed "../Web/Page/settings.js" suffix(, 0)
    }},
    {"welcome.js", (const char[]) {
#embed "../Web/Page/welcome.js" suffix(, 0)
    }},
    {"words.js", (const char[]) {
#embed "../Web/Page/words.js" suffix(, 0)
    }},
    {"workers.js", (const char[]) {
#embed "../Web/Page/workers.js" suffix(, 0)
    }},
    {"api/openapi.json", (const char[]) {
#embed "../Web/Page/openapi.json" suffix(, 0)
    }},
    {NULL, NULL},
};

const struct chaul_page_file *chaul_page_files(void) { return files; }
