/// Stands for the module's type, which reads libcurl's handle: the heads that are fuzzed come from no connection.
package final class ConnectionFacts: Sendable {}
