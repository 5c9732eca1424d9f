//! Names: checked once, when they are made.

use tenure_core::limits::{
    ITEM_ID_BYTES_MAX, KIND_BYTES_MAX, NAME_BYTES_MAX, SESSION_BYTES_MAX, STATUS_BYTES_MAX,
};
use tenure_core::names::check_kind;
use tenure_core::{ClaimId, CollectionKey, ItemId, Refusal, SessionId, Status, Text};

/// Each text is a name or is refused under the field's name, from every way in.
macro_rules! check {
    ($type:ty, $field:literal, good: $good:expr, bad: $bad:expr) => {
        for text in $good {
            let text: &str = &text;
            let name = <$type>::new(text).unwrap_or_else(|refusal| panic!("{text:?}: {refusal}"));
            assert_eq!((name.as_str(), name.to_string().as_str()), (text, text));
            assert_eq!(text.parse::<$type>().unwrap(), name);
            let written = serde_json::to_string(&name).unwrap();
            assert_eq!(serde_json::from_str::<$type>(&written).unwrap(), name);
            let bytes = postcard::to_stdvec(&name).unwrap();
            assert_eq!(postcard::from_bytes::<$type>(&bytes).unwrap(), name);
            assert_eq!(Text::from(name.clone()), Text::from(text));
        }
        for text in $bad {
            let text: &str = &text;
            let Err(Refusal::Invalid { field, .. }) = <$type>::new(text) else { panic!("{text:?} passed") };
            assert_eq!(&*field, $field);
            let written = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<$type>(&written).is_err(), "{text:?}");
            assert!(postcard::from_bytes::<$type>(&postcard::to_stdvec(text).unwrap()).is_err());
        }
    };
}

fn x(count: usize) -> String {
    "x".repeat(count)
}

#[test]
fn a_collection_is_kind_slash_name() {
    let longest = format!("{}/{}", x(KIND_BYTES_MAX), x(NAME_BYTES_MAX));
    let (long_kind, long_name) =
        (format!("{}/n", x(KIND_BYTES_MAX + 1)), format!("k/{}", x(NAME_BYTES_MAX + 1)));
    check!(CollectionKey, "collection",
        good: ["raffle/navidad", "a/b", "a-1_b/A.b_c-d@e:f+1", "tenure/policies", &longest, "a/.a", "a/..."],
        bad: ["", "/", "raffle", "raffle/", "/navidad", "Raffle/x", "1a/x", "-a/x", "a b/x", "a/b/c", "a/b c",
              "a/ñ", "ñ/a", "a/b~c", "a~b/c", "a/.", "a/..", "a/b%20", "a/b\n", "a/b?", &long_kind, &long_name]
    );
    let key = CollectionKey::from_parts("raffle", "navidad").unwrap();
    assert_eq!((key.kind(), key.name()), ("raffle", "navidad"));
    assert!(CollectionKey::from_parts("raffle/x", "navidad").is_err());
    assert_eq!(CollectionKey::policies().as_str(), "tenure/policies");
}

#[test]
fn an_item_is_any_text_without_control_characters() {
    check!(ItemId, "item",
        good: ["042", "img-7", "project 1/imágenes/ñ.png", "~", "a?b#c", "...", "日本", &x(ITEM_ID_BYTES_MAX)],
        bad: ["", ".", "..", "a\nb", "\0", "a\u{85}", "\u{7f}", &x(ITEM_ID_BYTES_MAX + 1)]
    );
    // Bytes count, not characters.
    assert!(ItemId::new("ñ".repeat(ITEM_ID_BYTES_MAX / 2)).is_ok());
    assert!(ItemId::new("ñ".repeat(ITEM_ID_BYTES_MAX / 2 + 1)).is_err());
}

#[test]
fn a_status_is_a_word() {
    check!(Status, "status",
        good: ["ready", "READY", "partially_completed", "v1.2-a", &x(STATUS_BYTES_MAX)],
        bad: ["", "two words", "ñ", "a/b", "a\n", &x(STATUS_BYTES_MAX + 1)]
    );
}

#[test]
fn a_session_is_any_text_without_control_characters() {
    check!(SessionId, "session",
        good: ["tab-1", "worker 7/β", &x(SESSION_BYTES_MAX)],
        bad: ["", "a\tb", &x(SESSION_BYTES_MAX + 1)]
    );
}

#[test]
fn a_kind_is_a_lower_case_word() {
    for kind in ["a", "raffle", "my-kind_2", &x(KIND_BYTES_MAX)] {
        assert!(check_kind(kind).is_ok(), "{kind}");
    }
    for kind in ["", "A", "2a", "_a", "a/b", "a.b", "ñ", &x(KIND_BYTES_MAX + 1)] {
        assert!(check_kind(kind).is_err(), "{kind}");
    }
}

#[test]
fn a_claim_id_reads_kind_name_number_and_comes_back_the_same() {
    let longest = format!("{}~{}~{}", x(KIND_BYTES_MAX), x(NAME_BYTES_MAX), u64::MAX);
    for text in ["raffle~navidad~7", "a~A.b_c-d@e:f+1~1", &longest] {
        let id: ClaimId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        let written = serde_json::to_string(&id).unwrap();
        assert_eq!(written, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<ClaimId>(&written).unwrap(), id);
        assert_eq!(postcard::from_bytes::<ClaimId>(&postcard::to_stdvec(&id).unwrap()).unwrap(), id);
    }
    let id: ClaimId = "raffle~navidad~7".parse().unwrap();
    assert_eq!((id.collection.as_str(), id.number), ("raffle/navidad", 7));
}

#[test]
fn one_claim_has_one_id_and_every_odd_form_is_refused() {
    let odd = [
        "",
        "~",
        "~~",
        "raffle",
        "raffle~navidad",
        "raffle~navidad~",
        "raffle~navidad~0",
        "raffle~navidad~07",
        "raffle~navidad~+7",
        "raffle~navidad~-7",
        "raffle~navidad~ 7",
        "raffle~navidad~7 ",
        "raffle~navidad~7~",
        "raffle~navidad~7~8",
        "raffle~navidad~seven",
        "raffle~navidad~7.0",
        "raffle~navidad~18446744073709551616",
        "raffle~~7",
        "~navidad~7",
        "Raffle~navidad~7",
        "raffle/navidad~7",
        "raffle/x~navidad~7",
        "raffle~x/navidad~7",
        "raffle~..~7",
        "raffle~navidad~٧",
    ];
    for text in odd {
        let Err(Refusal::Invalid { field, .. }) = text.parse::<ClaimId>() else { panic!("{text:?} passed") };
        assert_eq!(&*field, "claim");
        assert!(serde_json::from_str::<ClaimId>(&format!("{text:?}")).is_err());
    }
}

#[test]
fn nobody_is_called_as_the_system_itself() {
    let refusal = tenure_core::Principal::new("system", "Somebody").unwrap_err();
    assert!(matches!(refusal, tenure_core::Refusal::Invalid { field, .. } if &*field == "holder.id"));
}
