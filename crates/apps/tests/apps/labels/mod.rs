//! Labels: L1 to L9.

mod world;

mod demo;
mod images;
mod locks;
mod projects;
mod versions;
