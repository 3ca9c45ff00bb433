//! The worker against real endpoints, servers and files.

mod crash;
mod lived;
mod world;
