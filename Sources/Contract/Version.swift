/// Haul's own version, as workers, servers and `--version` say it.
package enum Version {
    package static let text = "0.1.0"
}
