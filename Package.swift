// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "haul",
    products: [
        .executable(name: "haul", targets: ["haul"]),
        .library(name: "HaulClient", targets: ["HaulClient"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    ],
    targets: [
        // C libraries: each is met in exactly one target.
        .systemLibrary(name: "CCurl", providers: [.apt(["libcurl4-openssl-dev"]), .brew(["curl"])]),
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"]), .brew(["hiredis"])]),
        .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"]), .brew(["openssl"])]),
        .target(name: "CLinux"),

        // Threads that may block or poll, so that Swift's cooperative ones never do.
        .target(name: "Executors", dependencies: ["CLinux"], swiftSettings: settings),

        // The bus: what a job is, and how it moves through Redis.
        .target(name: "Contract", swiftSettings: settings),
        .target(name: "Redis", dependencies: ["CHiredis", "COpenSSL", "Executors"], swiftSettings: settings),
        .target(
            name: "Bus",
            dependencies: ["Contract", "Redis"],
            resources: [
                .embedInCode("Lua/claim.lua"),
                .embedInCode("Lua/drop.lua"),
                .embedInCode("Lua/expire.lua"),
                .embedInCode("Lua/gate.lua"),
                .embedInCode("Lua/heartbeat.lua"),
                .embedInCode("Lua/inspect.lua"),
                .embedInCode("Lua/isolate.lua"),
                .embedInCode("Lua/json.lua"),
                .embedInCode("Lua/leave.lua"),
                .embedInCode("Lua/lose.lua"),
                .embedInCode("Lua/neighbours.lua"),
                .embedInCode("Lua/overdue.lua"),
                .embedInCode("Lua/places.lua"),
                .embedInCode("Lua/order.lua"),
                .embedInCode("Lua/prelude.lua"),
                .embedInCode("Lua/promote.lua"),
                .embedInCode("Lua/push.lua"),
                .embedInCode("Lua/raw.lua"),
                .embedInCode("Lua/reap.lua"),
                .embedInCode("Lua/recover.lua"),
                .embedInCode("Lua/register.lua"),
                .embedInCode("Lua/report.lua"),
                .embedInCode("Lua/requests.lua"),
                .embedInCode("Lua/runs.lua"),
                .embedInCode("Lua/settle.lua"),
                .embedInCode("Lua/take.lua"),
                .embedInCode("Lua/tell.lua"),
                .embedInCode("Lua/tick.lua"),
                .embedInCode("Lua/trim.lua"),
                .embedInCode("Lua/url.lua"),
                .embedInCode("Lua/watch.lua"),
            ],
            swiftSettings: settings),
        .target(name: "HaulClient", dependencies: ["Bus", "Contract", "Redis"], swiftSettings: settings),

        // The engine: bytes from HTTP to a durable file.
        .target(
            name: "Transfer", dependencies: ["CCurl", "COpenSSL", "CLinux", "Contract", "Executors"],
            swiftSettings: settings),
        .target(
            name: "Download", dependencies: ["CLinux", "Contract", "Executors", "Transfer"], swiftSettings: settings),

        // Where the two meet, and the command.
        .target(
            name: "Worker",
            dependencies: [
                "Bus", "Contract", "Download", "Executors", "Redis", "Transfer",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),
        .executableTarget(
            name: "haul",
            dependencies: [
                "Bus", "Contract", "Redis", "Transfer", "Worker",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),

        // Measure Transfer alone beside curl, and Redis alone beside redis-benchmark; no products.
        .executableTarget(
            name: "transfer-bench", dependencies: ["Contract", "Transfer"], path: "Tests/bench/transfer",
            swiftSettings: settings),
        .executableTarget(
            name: "redis-bench", dependencies: ["Redis"], path: "Tests/bench/redis", swiftSettings: settings),

        // Tests: one target per source target, and what they share.
        .target(
            name: "TestSupport",
            dependencies: ["COpenSSL", "CLinux", "Executors"],
            path: "Tests/Support", swiftSettings: settings),
        .testTarget(name: "ExecutorsTests", dependencies: ["Executors", "TestSupport"], swiftSettings: settings),
        .testTarget(name: "ContractTests", dependencies: ["Contract", "TestSupport"], swiftSettings: settings),
        .testTarget(name: "RedisTests", dependencies: ["Redis", "TestSupport"], swiftSettings: settings),
        .testTarget(
            name: "BusTests", dependencies: ["Bus", "Contract", "Redis", "TestSupport"], swiftSettings: settings),
        .testTarget(name: "HaulClientTests", dependencies: ["HaulClient", "TestSupport"], swiftSettings: settings),
        .testTarget(
            name: "TransferTests", dependencies: ["Contract", "Executors", "Transfer", "TestSupport"],
            swiftSettings: settings),
        .testTarget(
            name: "DownloadTests", dependencies: ["Contract", "Download", "Transfer", "TestSupport"],
            swiftSettings: settings),
        .testTarget(
            name: "WorkerTests",
            dependencies: [
                "Bus", "Contract", "Redis", "TestSupport", "Transfer", "Worker",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),
        .testTarget(name: "HaulTests", dependencies: ["Contract", "haul", "TestSupport"], swiftSettings: settings),
    ]
)
