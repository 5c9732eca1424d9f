//! `tenure raffle verify`.

use std::process::Stdio;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::process::{code, tenure, text};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A draw, made here by its written rule and not by the code that is tried.
fn draw(sold: &[u32]) -> Value {
    let seed = [9_u8; 32];
    let list: String = sold.iter().map(|number| format!("{number}\n")).collect();
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
