//! The bindings of every package that the nodes use, and of test_msgs, with no warning allowed.

#![deny(warnings)]
include!(concat!(env!("INTERFACE_PROBE_GENERATED"), "/packages.rs"));
