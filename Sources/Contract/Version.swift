/// Haul's own version, as workers, servers and `--version` report it.
package enum Version {
    package static let text = "0.2.0"
}
