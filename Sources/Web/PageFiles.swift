/// The files of Page/, by the names under which they are served.
enum PageFiles {
    static var all: [(name: String, bytes: [UInt8])] {
        [
            ("api.js", PackageResources.api_js),
            ("app.css", PackageResources.app_css),
            ("dom.js", PackageResources.dom_js),
            ("format.js", PackageResources.format_js),
            ("history.js", PackageResources.history_js),
            ("icon.svg", PackageResources.icon_svg),
            ("index.html", PackageResources.index_html),
            ("job.js", PackageResources.job_js),
            ("jobs.js", PackageResources.jobs_js),
            ("live.js", PackageResources.live_js),
            ("main.js", PackageResources.main_js),
            ("overview.js", PackageResources.overview_js),
            ("push.js", PackageResources.push_js),
            ("settings.js", PackageResources.settings_js),
            ("tables.js", PackageResources.tables_js),
            ("api/openapi.json", PackageResources.openapi_json),
        ]
    }
}
