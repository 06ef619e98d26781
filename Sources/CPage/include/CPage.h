#pragma once

/// A file of the web page.
struct chaul_page_file {
    /// The path under which the file is served. NULL marks the end of the list.
    const char *name;
    /// The file's text, zero-terminated.
    const char *text;
};

/// The list of the page's files.
const struct chaul_page_file *chaul_page_files(void);
