//! Clients that stall, and whether they still do: a third each are sockets and streams that are subscribed, full and never
//! read, and requests of which a byte comes now and then. Whom the server cuts off, as it should after a while, comes back.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::Value;

use super::stalled::NEWS;
use crate::Failure;
use crate::server::{KEY, Server};

const ROOM_BYTES: usize = 4_096;
/// A byte of a request, as those who mean to keep a server busy send it.
const DRIBBLE_EVERY: Duration = Duration::from_millis(500);
/// So many connect at a time.
const CONNECTING: usize = 8;
/// One in so many may just have been cut off.
const AWAY: usize = 20;

/// How a client stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Stream,
    Socket,
    Dribble,
}

/// All of them.
pub(super) struct Stalled {
    server: SocketAddr,
    since: u64,
    clients: Vec<(Sort, TcpStream)>,
}

impl Stalled {
    /// A third each; sockets follow from this event on, and streams have all of them before themselves.
    pub(super) fn connect(server: SocketAddr, since: u64, count: u64) -> Result<Self, Failure> {
        let mut stalled = Self { server, since, clients: Vec::new() };
        let sorts: Vec<_> =
            [Sort::Stream, Sort::Socket, Sort::Dribble].into_iter().cycle().zip(0..count).collect();
        stalled.clients = std::thread::scope(|scope| {
            let open = |(sort, _): &(Sort, u64)| Ok((*sort, stalled.open(*sort)?));
            let connecting = sorts.chunks(sorts.len().div_ceil(CONNECTING).max(1));
            let connecting: Vec<_> = connecting
                .map(|some| scope.spawn(move || some.iter().map(open).collect::<Result<Vec<_>, Failure>>()))
                .collect();
            let mut clients = Vec::new();
            for some in connecting {
                clients.extend(some.join().map_err(|_| "those that stall panicked")??);
            }
            Ok::<_, Failure>(clients)
        })?;
        Ok(stalled)
    }

    fn open(&self, sort: Sort) -> Result<TcpStream, Failure> {
        let mut stream = TcpStream::connect(self.server)?;
        set_socket_recv_buffer_size(&stream, ROOM_BYTES)?;
        let of = match sort {
            Sort::Stream => "events?since=0 HTTP/1.1\r\naccept: text/event-stream".to_owned(),
            Sort::Socket => socket(self.since),
            Sort::Dribble => {
                stream.write_all(b"POST /v1/claims HTTP/1.1\r\nhost: tenure\r\nx-slow: ")?;
                return Ok(stream);
            }
        };
        subscribe(&mut stream, NEWS, &of)?;
        Ok(stream)
    }

    /// A byte each, now and then, until it is over. Tells how many were cut off and came back.
    pub(super) fn keep(&mut self, over: &AtomicBool) -> Result<usize, Failure> {
        let mut reopened = 0;
        while !over.load(Ordering::Relaxed) {
            for nth in self.cut_off()? {
                self.clients[nth].1 = self.open(self.clients[nth].0)?;
                reopened += 1;
            }
            for (sort, stream) in &mut self.clients {
                if *sort == Sort::Dribble {
                    // One that was cut off just now is found by the next look.
                    let _ = stream.write_all(b"a");
                }
            }
            std::thread::sleep(DRIBBLE_EVERY);
        }
        Ok(reopened)
    }

    /// Those that the server has closed. They read nothing, so that only the kernel knows.
    fn cut_off(&self) -> Result<Vec<usize>, Failure> {
        let looks = self.clients.iter().map(|(_, stream)| PollFd::new(stream, PollFlags::RDHUP));
        let mut looks: Vec<_> = looks.collect();
        poll(&mut looks, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let is_gone = |(nth, look): (usize, &PollFd<'_>)| look.revents().intersects(gone).then_some(nth);
        Ok(looks.iter().enumerate().filter_map(is_gone).collect())
    }

    /// The server counts them, and what is meant for those that are subscribed is stuck in it.
    pub(super) fn are_there(&self, server: &Server) -> Result<(), Failure> {
        let page = server.caller().ask("GET", "/metrics", None, &Value::Null)?;
        let figures = page.body.as_str().unwrap_or_default();
        let of = |sort| self.clients.iter().filter(|(one, _)| *one == sort).count();
        let streams = figure(figures, "tenure_sockets{sort=\"sse\"}");
        let sockets = figure(figures, "tenure_sockets{sort=\"ws\"}");
        let connections = figure(figures, "tenure_connections");
        let stuck = stuck(self.server.port())?;
        for (what, is, should_be) in [
            ("streams", streams, of(Sort::Stream)),
            ("sockets", sockets, of(Sort::Socket)),
            ("connections", connections, self.clients.len()),
            ("connections with something to be taken", stuck, of(Sort::Stream) + of(Sort::Socket)),
        ] {
            if is + should_be / AWAY < should_be {
                return Err(format!("{should_be} {what} should stall, and the server has {is}").into());
            }
        }
        Ok(())
    }
}

/// The end of a socket's path, and what makes it one.
pub(super) fn socket(since: u64) -> String {
    format!(
        "ws?since={since} HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="
    )
}

/// Subscribes to the news, and sees that it was not refused: who is not subscribed stalls nothing. Takes the first line
/// of the answer, and what comes with it.
pub(super) fn subscribe(stream: &mut TcpStream, news: &str, of: &str) -> Result<(), Failure> {
    let request =
        format!("GET /v1/collections/{news}/{of}\r\nhost: tenure\r\nauthorization: Bearer {KEY}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut first = String::new();
    BufReader::with_capacity(1, stream).read_line(&mut first)?;
    if first.starts_with("HTTP/1.1 200") || first.starts_with("HTTP/1.1 101") {
        Ok(())
    } else {
        Err(format!("a subscriber was refused: {first}").into())
    }
}

fn figure(page: &str, name: &str) -> usize {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Open connections of whoever listens at this port that have sent what the other end does not take. The columns are the
/// number, here, there, the state (1 is open) and what is queued to be sent and to be read, all in hexadecimal digits.
fn stuck(port: u16) -> Result<usize, Failure> {
    let table = std::fs::read_to_string("/proc/net/tcp")?;
    let here = format!(":{port:04X}");
    let is_stuck = |line: &&str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let [_, local, _, "01", queued, ..] = columns[..] else { return false };
        local.ends_with(&here) && !queued.starts_with("00000000:")
    };
    Ok(table.lines().filter(is_stuck).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_read_by_its_whole_name() {
        let page =
            "tenure_sockets{sort=\"ws\"} 75\ntenure_connections_refused_total 3\ntenure_connections 210\n";
        assert_eq!(figure(page, "tenure_sockets{sort=\"ws\"}"), 75);
        assert_eq!(figure(page, "tenure_connections"), 210);
        assert_eq!(figure(page, "tenure_sockets{sort=\"sse\"}"), 0);
    }
}
