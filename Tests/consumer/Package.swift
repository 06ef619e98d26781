// swift-tools-version: 6.2
import PackageDescription

// The package of a service, as in README.md. Tests/consumer/run.sh builds it.
let package = Package(
    name: "consumer",
    dependencies: [.package(name: "haul", path: "../..")],
    targets: [
        .executableTarget(name: "consumer", dependencies: [.product(name: "HaulClient", package: "haul")])
    ]
)
