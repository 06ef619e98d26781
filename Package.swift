// swift-tools-version: 6.2
import PackageDescription

#if !os(Linux)
    #error("Haul runs on Linux only, because it needs epoll, O_TMPFILE and other calls of its kernel.")
#endif

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// A C target that embeds files of another language into the program. Its source lists the files.
func embedded(_ folder: String) -> Target {
    // `#embed` is C23. Clang supports it in every language mode, with a warning.
    .target(
        name: "CHaul\(folder.dropFirst())", path: "Sources/\(folder)",
        cSettings: [.treatAllWarnings(as: .error), .disableWarning("c23-extensions")])
}

/// The module `Haul<folder>` in `Sources/<folder>`. The prefix avoids clashes with modules of other packages. Each has a
/// README.md, and `exclude` names what else is not a source.
func module(_ folder: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .target(
        name: "Haul\(folder)", dependencies: dependencies, path: "Sources/\(folder)",
        exclude: ["README.md"] + exclude, swiftSettings: settings)
}

/// The tests of one module. They share HaulTestSupport.
func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies + ["HaulTestSupport"], swiftSettings: settings)
}

/// A package of Apple's. A release (deploy/release.sh) takes exactly the version that was tested. Otherwise a later one
/// may be taken, so that a service which depends on HaulClient can choose.
func dependency(_ name: String, from: Version, released: Version) -> Package.Dependency {
    let url = "https://github.com/apple/\(name)"
    guard Context.environment["HAUL_RELEASE"] != nil else { return .package(url: url, from: from) }
    return .package(url: url, exact: released)
}

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let metrics = Target.Dependency.product(name: "CoreMetrics", package: "swift-metrics")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")

let package = Package(
    name: "haul",
    products: [
        .executable(name: "haul", targets: ["haul"]),
        .library(name: "HaulClient", targets: ["HaulClient"]),
        .library(name: "HaulClientTesting", targets: ["HaulClientTesting"]),
    ],
    dependencies: [
        dependency("swift-argument-parser", from: "1.8.0", released: "1.8.2"),
        dependency("swift-log", from: "1.16.0", released: "1.16.2"),
        dependency("swift-metrics", from: "2.13.0", released: "2.13.0"),
    ],
    targets: [
        // C libraries: one target imports each library's headers.
        .systemLibrary(
            name: "CHaulCurl", path: "Sources/CCurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(
            name: "CHaulHiredis", path: "Sources/CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(
            name: "CHaulOpenSSL", path: "Sources/COpenSSL", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CHaulExpat", path: "Sources/CExpat", providers: [.apt(["libexpat1-dev"])]),
        .target(name: "CHaulLinux", path: "Sources/CLinux", exclude: ["README.md"]),

        // Threads that may block or poll, so that Swift's cooperative threads never do.
        module("Executors", ["CHaulLinux"]),

        // The bus: the contract of jobs, and the queue in Redis.
        module("Contract", []),
        module("Redis", ["CHaulHiredis", "CHaulOpenSSL", "HaulExecutors"]),
        embedded("CLua"),
        module(
            "Bus", ["CHaulLua", "HaulContract", "HaulRedis"],
            exclude: ["Claim/README.md", "Lua", "Settle/README.md", "Tick/README.md"]),
        .target(
            name: "HaulClient", dependencies: ["HaulBus", "HaulContract", "HaulRedis", logging],
            exclude: ["README.md"], swiftSettings: settings),
        // A queue without Redis, for the tests of a service.
        .target(
            name: "HaulClientTesting", dependencies: ["HaulClient", "HaulContract", "HaulExecutors"],
            exclude: ["README.md"], swiftSettings: settings),

        // The engine: HTTP, stores, and the activities that move bytes between the two.
        module(
            "HTTP", ["CHaulCurl", "CHaulOpenSSL", "CHaulLinux", "HaulContract", "HaulExecutors"],
            exclude: ["Connection/README.md"]),
        module("Storage", ["HaulContract", "HaulHTTP"]),
        module(
            "FileStore",
            ["CHaulLinux", "CHaulOpenSSL", "HaulContract", "HaulExecutors", "HaulHTTP", "HaulStorage"]),
        module(
            "ObjectStore",
            ["CHaulExpat", "CHaulOpenSSL", "HaulContract", "HaulExecutors", "HaulHTTP", "HaulStorage"]),
        module(
            "Activities", ["HaulContract", "HaulExecutors", "HaulHTTP", "HaulStorage"],
            exclude: ["Download/README.md", "Download/Segments/README.md"]),

        // Log lines.
        module("Logs", ["HaulContract", "HaulExecutors", logging]),

        // Counters and histograms in Prometheus' text format, and the metrics of queues.
        module("Metrics", ["HaulBus", "HaulContract", "HaulRedis", metrics]),

        // The web page and the HTTP API.
        module("HTTPServer", ["CHaulLinux", "HaulExecutors"]),
        embedded("CPage"),
        module(
            "Web",
            [
                "CHaulOpenSSL", "CHaulPage", "HaulBus", "HaulContract", "HaulExecutors", "HaulHTTPServer",
                "HaulHTTP", "HaulMetrics", "HaulRedis", "HaulStorage", logging,
            ],
            exclude: ["Page"]),

        // The worker, which connects the bus with the engine.
        module(
            "Worker",
            [
                "HaulActivities", "HaulBus", "HaulContract", "HaulExecutors", "HaulFileStore", "HaulHTTP",
                "HaulMetrics", "HaulObjectStore", "HaulRedis", "HaulStorage", logging, metrics,
            ]),
        // Input and output of all commands (Terminal); the commands get and put, which need no Redis (Direct).
        module("Terminal", ["CHaulLinux", "HaulContract", argumentParser]),
        module(
            "Direct",
            [
                "CHaulExpat", "CHaulLinux", "HaulActivities", "HaulBus", "HaulContract", "HaulExecutors",
                "HaulFileStore", "HaulHTTP", "HaulObjectStore", "HaulStorage", "HaulTerminal", argumentParser,
            ]),
        .executableTarget(
            name: "haul",
            dependencies: [
                "CHaulLinux", "HaulBus", "HaulContract", "HaulDirect", "HaulExecutors", "HaulFileStore", "HaulHTTP",
                "HaulHTTPServer", "HaulLogs", "HaulObjectStore", "HaulRedis", "HaulTerminal", "HaulWeb", "HaulWorker",
                argumentParser, logging,
            ],
            exclude: ["README.md"], swiftSettings: settings),

        // Benchmarks: HTTP alone against curl, and Redis alone against redis-benchmark. They are not products.
        .executableTarget(
            name: "http-bench", dependencies: ["HaulContract", "HaulFileStore", "HaulHTTP"], path: "Tests/bench/http",
            swiftSettings: settings),
        .executableTarget(
            name: "redis-bench", dependencies: ["HaulRedis"], path: "Tests/bench/redis", swiftSettings: settings),

        // The Swift program of docs/start/swift.md.
        .executableTarget(
            name: "producer-example", dependencies: ["HaulClient"], path: "Tests/examples/producer",
            swiftSettings: settings),

        // Tests: one target for each module, and a target that they share.
        .target(
            name: "HaulTestSupport",
            dependencies: [
                "CHaulLinux", "CHaulOpenSSL", "HaulContract", "HaulExecutors", "HaulHTTP", "HaulStorage",
            ],
            path: "Tests/Support", exclude: ["object-server.sh", "scripted_origin.py"], swiftSettings: settings),
        tests("ExecutorsTests", ["HaulExecutors"]),
        tests("ContractTests", ["HaulContract"]),
        tests("RedisTests", ["HaulRedis"]),
        tests("BusTests", ["HaulBus", "HaulContract", "HaulRedis"]),
        tests("HaulClientTests", ["HaulClient", "HaulClientTesting", "HaulRedis", "haul", logging]),
        tests("HTTPTests", ["HaulContract", "HaulExecutors", "HaulFileStore", "HaulHTTP"]),
        tests("FileStoreTests", ["HaulContract", "HaulExecutors", "HaulFileStore", "HaulHTTP", "HaulStorage"]),
        tests("ObjectStoreTests", ["HaulContract", "HaulExecutors", "HaulHTTP", "HaulObjectStore", "HaulStorage"]),
        tests(
            "DownloadTests",
            ["HaulActivities", "HaulContract", "HaulFileStore", "HaulHTTP", "HaulObjectStore", "HaulStorage"]),
        tests(
            "WorkerTests",
            [
                "HaulActivities", "HaulBus", "HaulContract", "HaulExecutors", "HaulFileStore", "HaulHTTP",
                "HaulMetrics", "HaulObjectStore", "HaulRedis", "HaulStorage", "HaulWorker", logging,
            ]),
        // A kind of job that only sleeps, which knows its worker through Activities alone.
        tests(
            "KindTests",
            ["HaulActivities", "HaulBus", "HaulContract", "HaulExecutors", "HaulRedis", "HaulWorker", logging]),
        tests("LogsTests", ["HaulContract", "HaulLogs", logging]),
        tests("MetricsTests", ["HaulMetrics", metrics]),
        tests(
            "WebTests",
            [
                "HaulBus", "HaulContract", "HaulFileStore", "HaulHTTPServer", "HaulLogs", "HaulRedis", "HaulWeb",
                logging,
            ]),
        tests(
            "HaulTests",
            [
                "HaulActivities", "HaulBus", "HaulClient", "HaulContract", "HaulDirect", "HaulExecutors",
                "HaulHTTPServer", "HaulMetrics", "HaulRedis", "HaulTerminal", "HaulWeb", "haul", "producer-example",
            ]),
    ]
)
