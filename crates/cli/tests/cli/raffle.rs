//! `tenure raffle verify`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::process::{ADMIN, Server, code, tenure, text};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// A draw, made here by its written rule and not by the code that is tried.
fn draw(sold: &[u32]) -> Value {
    let seed = [9_u8; 32];
    let list = sold.iter().fold(String::new(), |text, number| format!("{text}{number}\n"));
    let list = Sha256::digest(list.as_bytes());
    // With so few numbers no round is skipped but once in 10^18.
    let digest = Sha256::digest([&seed[..], &list, &[0; 8]].concat());
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    let place = u64::from_be_bytes(first) % sold.len() as u64;
    let winner = sold[usize::try_from(place).expect("small")];
    json!({"raffle_id": "navidad", "seed_hash": hex(&Sha256::digest(seed)), "seed": hex(&seed), "sold": sold,
        "sold_hash": hex(&list), "winner": winner, "drawn_at": "2026-01-02T03:04:05.678Z"})
}

fn verify(draw: &Value, more: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("draw.json");
    std::fs::write(&file, draw.to_string()).expect("is written");
    let mut command = tenure();
    command.args(["raffle", "verify"]).arg(&file).args(more).stdin(Stdio::null());
    let output = command.output().expect("runs");
    (code(&output), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn a_draw_that_holds_is_told_from_one_that_does_not() {
    let good = draw(&[3, 14, 15, 92, 65_000]);
    let (code, said) = verify(&good, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("of 5 sold numbers {} wins", good["winner"])), "{said}");
    let hash = good["seed_hash"].as_str().expect("a text");
    assert_eq!(verify(&good, &["--seed-hash", hash]).0, 0);
    assert_eq!(verify(&good, &["--seed-hash", &"0".repeat(64)]).0, 1);
    let other = [3, 14].into_iter().find(|number| good["winner"] != *number).expect("one of them");
    for (field, value) in [
        ("winner", json!(other)),
        ("seed", json!("00".repeat(32))),
        ("seed_hash", json!("00".repeat(32))),
        ("sold", json!([3, 14, 15, 92])),
        ("sold", json!([])),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        let (code, said) = verify(&bad, &[]);
        assert!(code == 1 && said.contains("does not hold"), "{field}: {said}");
    }
    assert_eq!(verify(&json!({"no": "draw"}), &[]).0, 64);
}

/// One request; its status and what it answers.
pub(crate) fn ask(url: &str, key: &str, (method, path): (&str, &str), body: &Value) -> (u16, Value) {
    let address = url.strip_prefix("http://").expect("no TLS");
    let mut stream = TcpStream::connect(address).expect("connects");
    let body = body.to_string();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("is answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).expect("JSON"))
}

/// A raffle whose number 7 is paid by a transfer, and drawn.
fn drawn(server: &Server) -> Value {
    let done = |key: &str, route: (&str, &str), body: Value| {
        let (status, answer) = ask(&server.url, key, route, &body);
        assert!((200..300).contains(&status), "{route:?}: {answer}");
        answer
    };
    let admin = |route: (&str, &str), body: Value| done(ADMIN, route, body);
    let raffle =
        json!({"id": "navidad", "title": "Rifa", "numbers": 10, "price_minor": 1000, "currency": "CRC"});
    admin(("POST", "/raffles"), raffle);
    admin(("PATCH", "/raffles/navidad"), json!({"status": "active"}));
    let config = json!({"phone_number": "8888-0000", "account_holder": "Asociación Ejemplo"});
    admin(("PATCH", "/admin/payment-providers/sinpe_movil"), json!({"config": config}));
    let subject = json!({"id": "ana", "name": "Ana"});
    let key = admin(("POST", "/v1/keys"), json!({"name": "test", "subject": subject, "role": "editor"}));
    let key = key["key"].as_str().expect("a key");
    let wanted = json!({"raffle_id": "navidad", "number_ids": [7, 8], "session_id": "tab"});
    let reservation = done(key, ("POST", "/reservations"), wanted);
    let payment = json!({"reservation_id": reservation["id"], "provider": "sinpe_movil"});
    let payment = done(key, ("POST", "/payments"), payment);
    let id = payment["id"].as_str().expect("an id");
    let told = json!({"reference": "1234567890", "payer_phone": "88880001", "amount_minor": 2000});
    done(key, ("POST", &format!("/payments/{id}/transfer")), told);
    admin(("POST", &format!("/admin/payments/{id}/approve")), json!({"bank_amount_minor": 2000}));
    admin(("PATCH", "/raffles/navidad"), json!({"status": "paused"}));
    admin(("POST", "/raffles/navidad/draw"), json!({}))
}

/// By the address of a served draw, and by one whose answer somebody changed on the way.
#[test]
fn a_served_draw_is_verified_by_its_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let draw = drawn(&server);
    let verify = |address: &str| {
        let output = server.ask(&["raffle", "verify", address]).output().expect("runs");
        (code(&output), text(&output.stdout) + &text(&output.stderr))
    };
    let (ended, said) = verify(&format!("{}/raffles/navidad/draw", server.url));
    assert_eq!(ended, 0, "{said}");
    assert!(said.contains(&format!("of 2 sold numbers {} wins", draw["winner"])), "{said}");

    let mut changed = draw.clone();
    changed["winner"] = if draw["winner"] == 7 { json!(8) } else { json!(7) };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/raffles/navidad/draw", listener.local_addr().expect("an address"));
    let liar = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody asks");
        let mut request = Vec::new();
        let mut bytes = [0; 1_024];
        while !request.windows(4).any(|four| four == b"\r\n\r\n") {
            let count = stream.read(&mut bytes).expect("is read");
            request.extend_from_slice(&bytes[..count]);
        }
        let body = changed.to_string();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("is sent");
    });
    let (ended, said) = verify(&address);
    assert!(ended == 1 && said.contains("another number wins"), "{ended}: {said}");
    liar.join().expect("ends");
    // Not drawn, not there, and no draw's address.
    assert_ne!(verify(&format!("{}/raffles/other/draw", server.url)).0, 0);
    assert_eq!(verify(&format!("{}/raffles", server.url)).0, 64);
}
