#pragma once

/// A file of the page.
struct chaul_page_file {
    /// The name under which it is served; NULL behind the last file.
    const char *name;
    /// Its text, which ends with a zero.
    const char *text;
};

/// The first of the page's files; the others follow it.
const struct chaul_page_file *chaul_page_files(void);
