/// The files of Page/, by the names under which they are served.
enum PageFiles {
    static var all: [(name: String, bytes: [UInt8])] {
        [
            ("index.html", PackageResources.index_html), ("api/openapi.json", PackageResources.openapi_json),
        ]
    }
}
