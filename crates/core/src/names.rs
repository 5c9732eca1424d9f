//! The names of things: checked once, when they are made, so that no other code has to doubt them.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Refusal;
use crate::limits::{ITEM_ID_BYTES_MAX, KIND_BYTES_MAX, NAME_BYTES_MAX, SESSION_BYTES_MAX, STATUS_BYTES_MAX};

/// The kind that Tenure keeps for itself: its policies live in [`CollectionKey::policies`].
pub const SYSTEM_KIND: &str = "tenure";

const POLICIES: &str = "tenure/policies";

/// A text that is copied far more often than it is made: names, ids, words. Up to 23 bytes lie in the value itself; longer
/// ones are shared. A count of who shares a text would be written by every thread for every command, and each of them
/// would wait for the others' caches.
pub type Text = smol_str::SmolStr;

/// A checked text of its own type.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $field:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Text);

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        // Out of the text itself: a string in between would be allocated for each name of each command.
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a string")
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$type, E> {
                        $type::new(text).map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }

        impl $type {
            /// Checks the text; the refusal names the field and what is allowed.
            pub fn new(text: impl Into<Text>) -> Result<Self, Refusal> {
                let text = text.into();
                match $check(&text) {
                    Ok(()) => Ok(Self(text)),
                    Err(detail) => Err(Refusal::invalid($field, detail)),
                }
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<Text> for $type {
            type Error = Refusal;
            fn try_from(text: Text) -> Result<Self, Refusal> {
                Self::new(text)
            }
        }

        impl From<$type> for Text {
            fn from(name: $type) -> Text {
                name.0
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = Refusal;
            fn from_str(text: &str) -> Result<Self, Refusal> {
                Self::new(text)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// `kind/name`, e.g. `raffle/navidad`: the unit of consistency.
    CollectionKey, "collection", check_collection
}
name! {
    /// One thing in a collection: `042`, `img-7`. Any text without control characters.
    ItemId, "item", check_item
}
name! {
    /// A word such as `ready` or `sold`; the kind's policy says which can be claimed and which are final.
    Status, "status", check_status
}
name! {
    /// A tab or a worker instance of a holder.
    SessionId, "session", check_session
}

impl CollectionKey {
    /// Puts a key together from its two parts.
    pub fn from_parts(kind: &str, name: &str) -> Result<Self, Refusal> {
        Self::new([kind, "/", name].concat())
    }

    /// Where Tenure keeps the policies, as a collection like any other.
    pub fn policies() -> Self {
        Self(Text::new_static(POLICIES))
    }

    /// This is where the policies are.
    pub(crate) fn is_policies(&self) -> bool {
        self.0 == POLICIES
    }

    /// The part before the slash.
    pub fn kind(&self) -> &str {
        self.0.split_once('/').map_or("", |(kind, _)| kind)
    }

    /// The part after the slash.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }
}

/// A claim's id: its collection and the number of the event that granted it, so that it needs neither
/// randomness nor an index to be found. Written `kind~name~number`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId {
    /// Where the claim lives.
    pub collection: CollectionKey,
    /// The number of the event that granted it.
    pub number: u64,
}

impl ClaimId {
    /// As it is written.
    pub fn text(&self) -> String {
        let collection = self.collection.as_str();
        let mut text = String::with_capacity(collection.len() + 21);
        let (kind, name) = collection.split_once('/').unwrap_or_default();
        for part in [kind, "~", name, "~", &self.number.to_string()] {
            text.push_str(part);
        }
        text
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl FromStr for ClaimId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let mut parts = text.split('~');
        let (Some(kind), Some(name), Some(number), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Refusal::invalid("claim", "must read kind~name~number"));
        };
        // `u64::from_str` takes a leading plus or zeros: then one claim would have many ids.
        let number = number
            .parse::<u64>()
            .ok()
            .filter(|_| !number.starts_with(['+', '0']))
            .ok_or_else(|| Refusal::invalid("claim", "must end in the number of its grant"))?;
        let collection = CollectionKey::from_parts(kind, name)
            .map_err(|_| Refusal::invalid("claim", "must name an existing kind and collection"))?;
        Ok(Self { collection, number })
    }
}

impl Serialize for ClaimId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for ClaimId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = ClaimId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ClaimId, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// Checks a kind by itself, as in `PUT /v1/policies/{kind}`.
pub fn check_kind(kind: &str) -> Result<(), &'static str> {
    let mut bytes = kind.bytes();
    let head = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
    let tail = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    if head && tail && kind.len() <= KIND_BYTES_MAX {
        Ok(())
    } else {
        Err("a kind is 1 to 32 of a-z, 0-9, - and _, and starts with a letter")
    }
}

fn check_collection(key: &str) -> Result<(), &'static str> {
    let Some((kind, name)) = key.split_once('/') else {
        return Err("must read kind/name");
    };
    check_kind(kind)?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-@:+".contains(&b);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
        return Err("a name is 1 to 128 of A-Z, a-z, 0-9 and . _ - @ : +");
    }
    if name == "." || name == ".." {
        return Err("a name is not . or ..");
    }
    Ok(())
}

fn check_item(id: &str) -> Result<(), &'static str> {
    if id.is_empty() || id.len() > ITEM_ID_BYTES_MAX {
        return Err("an item's id has 1 to 256 bytes");
    }
    if id.chars().any(char::is_control) {
        return Err("an item's id has no control characters");
    }
    if id == "." || id == ".." {
        return Err("an item's id is not . or ..");
    }
    Ok(())
}

fn check_status(status: &str) -> Result<(), &'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    if status.is_empty() || status.len() > STATUS_BYTES_MAX || !status.bytes().all(plain) {
        return Err("a status is 1 to 64 of A-Z, a-z, 0-9 and _ - .");
    }
    Ok(())
}

fn check_session(session: &str) -> Result<(), &'static str> {
    if session.is_empty() || session.len() > SESSION_BYTES_MAX {
        return Err("a session has 1 to 128 bytes");
    }
    if session.chars().any(char::is_control) {
        return Err("a session has no control characters");
    }
    Ok(())
}
