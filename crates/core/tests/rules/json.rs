//! Documents: kept as they were written, refused where they are not JSON.

use serde::{Deserialize, Serialize};
use tenure_core::limits::DATA_BYTES_MAX;
use tenure_core::{Json, Refusal};

use crate::world::json;

#[test]
fn what_is_not_json_is_refused_and_the_field_is_named() {
    for text in ["", " ", "{", "{]", "nul", "1 2", "{'a':1}", "[1,]", "NaN", "\"\u{1}\"", "// no", "01"] {
        let refusal = Json::parse(text, "body.data").unwrap_err();
        assert_eq!(
            refusal,
            Refusal::invalid("body.data", "is not valid JSON, or nested too deeply"),
            "{text:?}"
        );
    }
}

#[test]
fn a_document_comes_back_as_it_was_written() {
    // Numbers keep their digits and objects their order: 1.0 is not 1, and no cent is lost.
    for text in ["null", "1.0", "12345678901234567890.10", r#"{"b":1,"a":[ 2 ]}"#, "\"ñ\\u00f1\""] {
        let document = json(text);
        assert_eq!(document.as_str(), text);
        assert_eq!(serde_json::to_string(&document).unwrap(), text);
        assert_eq!(serde_json::from_str::<Json>(text).unwrap(), document);
        let bytes = postcard::to_stdvec(&document).unwrap();
        assert_eq!(postcard::from_bytes::<Json>(&bytes).unwrap(), document);
    }
    assert_eq!(json("  {} \n").as_str(), "{}");
}

#[test]
fn a_document_can_be_made_of_and_read_as_anything() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Line {
        serial: String,
        count: u32,
    }
    let line = Line { serial: "S-1".into(), count: 3 };
    let document = Json::of(&line).unwrap();
    assert_eq!(document.read::<Line>().unwrap(), line);
    assert!(json("[]").read::<Line>().is_err());
    assert_eq!(Json::of(&"x".repeat(DATA_BYTES_MAX)).unwrap_err().code(), "invalid");
}

#[test]
fn a_document_that_no_reader_could_read_is_refused() {
    let deep = "[".repeat(1_000) + &"]".repeat(1_000);
    for text in [deep.as_str(), r#""\ud800""#, "\u{a0}1", "{", ""] {
        assert!(Json::parse(text, "data").is_err(), "{text}");
    }
    let bytes = postcard::to_stdvec(&[0xffu8, 0xfe][..]).unwrap();
    assert!(postcard::from_bytes::<Json>(&bytes).is_err());
    let long = format!("\"{}\"", "x".repeat(DATA_BYTES_MAX));
    assert!(serde_json::from_str::<Json>(&long).is_err());
}
