//! The client against a real server on a socket, with a clock that is moved by hand.

mod guard;
mod plain;
mod stream;
mod support;
