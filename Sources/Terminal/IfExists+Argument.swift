public import ArgumentParser
public import HaulContract

// The type is public, and so must be what its conformance names.
extension Job.IfExists: ExpressibleByArgument {}
