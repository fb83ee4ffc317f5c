"""Generates Rust bindings for ROS 2 interface packages that bring none.

The layout is the one that the ros-env crate includes: `share/<package>/rust/` with a Cargo.toml,
`src/<kind>.rs` for the idiomatic types and `src/<kind>/rmw.rs` for those that the middleware reads
and writes, where <kind> is msg, srv or action. The interfaces are read by the installed
rosidl_parser; no other dependency is needed.
"""
