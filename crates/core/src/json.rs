//! A JSON document as the caller wrote it: kept as text, so that it costs nothing until somebody reads
//! it and numbers come back as they went in.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Refusal;
use crate::limits::DATA_BYTES_MAX;

/// Valid JSON text of at most [`DATA_BYTES_MAX`] bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks the text; `field` is named in the refusal.
    pub fn parse(text: &str, field: &str) -> Result<Self, Refusal> {
        let text = text.trim_matches([' ', '\t', '\n', '\r']);
        if text.len() > DATA_BYTES_MAX {
            return Err(Refusal::invalid(field, "is larger than 64 KiB"));
        }
        // A full parse, once, at the door: a raw scan would let through what no reader can read (a lone
        // surrogate, thousands of brackets).
        match serde_json::from_str::<serde_json::Value>(text) {
            Ok(_) => Ok(Self(Arc::from(text))),
            Err(_) => Err(Refusal::invalid(field, "is not valid JSON, or nested too deeply")),
        }
    }

    /// Makes a document of anything that serialises.
    pub fn of(value: &impl Serialize) -> Result<Self, Refusal> {
        let text = serde_json::to_string(value)
            .map_err(|_| Refusal::invalid("data", "cannot be written as JSON"))?;
        Self::parse(&text, "data")
    }

    /// Reads the document as a type of the caller's.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// In JSON the document stands as itself; in binary forms as its text.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
            raw.serialize(serializer)
        } else {
            serializer.serialize_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let raw = Box::<RawValue>::deserialize(deserializer)?;
            Self::parse(raw.get(), "data").map_err(D::Error::custom)
        } else {
            // Binary forms are our own, and were checked at the door.
            Ok(Self(<Arc<str>>::deserialize(deserializer)?))
        }
    }
}
