//! What a server logs about requests, in its own process: only there is its subscriber everybody's.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::process::{ADMIN, Server, serve, text, until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The head of an answer. With `te` a connection goes the long way.
fn ask(server: &Server, line: &str, id: &str, more: &str, body: &str) -> String {
    let address = server.url.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).expect("listens");
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {ADMIN}\r\nx-request-id: {id}\r\n{more}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("sends");
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("an answer");
        answer.extend(byte);
    }
    text(&answer)
}

fn lines(level: &str, check: impl Fn(&Server), expected: usize) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut command = serve(&folder.path().join("data"));
    command.env("TENURE_ADMIN_KEY", ADMIN).env("TENURE_LOG_LEVEL", level).env("TENURE_LOG_FORMAT", "json");
    let server = Server::logging(command, File::create(&log).expect("a file"));
    check(&server);
    let read = || -> Vec<Value> {
        let text = fs::read_to_string(&log).expect("a log");
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.filter(|line: &Value| line["message"] == "answered").collect()
    };
    until("the lines", || read().len() >= expected);
    read()
}

#[test]
fn a_line_says_of_which_request_it_is_and_only_of_that() {
    // The second looks into spans, which then have to be there before the line.
    for level in ["warn,tenure_server=debug", "warn,[request]=debug"] {
        let asked = |server: &Server| {
            let claim = r#"{"collection":"lock/log","items":["a"]}"#;
            let trace = format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
            let answer = ask(server, "POST /v1/claims", "short", &trace, claim);
            assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
            let answer = ask(server, "DELETE /v1/claims/lock~log~2", "long", "te: trailers\r\n", "");
            assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
        };
        let lines = lines(level, asked, 2);
        let span = |id, method, route, trace| {
            let client = "127.0.0.1";
            json!({"id": id, "method": method, "route": route, "trace": trace, "client": client, "name": "request"})
        };
        let expected =
            [span("short", "POST", "/v1/claims", TRACE), span("long", "DELETE", "/v1/claims/{id}", "")];
        let told: Vec<_> = lines.iter().map(|line| line["span"].clone()).collect();
        assert_eq!(told, expected, "{level}");
        assert_eq!((&lines[0]["status"], &lines[1]["status"]), (&json!(201), &json!(204)));
        assert_eq!(lines[0]["target"], "tenure_server::front");
    }
}
