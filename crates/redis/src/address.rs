//! `redis://user:password@host:port/database`

use std::fmt;

/// Where a Redis is, and how to sign in there.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
}

const FORM: &str = "is not of the form redis://user:password@host:port/database";

impl Address {
    /// Reads it. What is wrong is said without repeating any of it, since it may hold a password.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        if url.starts_with("rediss://") {
            return Err("asks for TLS, which this program does not speak to Redis: use a private network");
        }
        let rest = url.strip_prefix("redis://").ok_or("must begin with redis://")?;
        // A password may hold an @, a host may not.
        let (who, at) = rest.rsplit_once('@').map_or((None, rest), |(who, at)| (Some(who), at));
        let (place, database) = at.split_once('/').unwrap_or((at, ""));
        let database = if database.is_empty() { 0 } else { database.parse().map_err(|_| FORM)? };
        let (host, port) = match place.strip_prefix('[') {
            Some(six) => {
                let (host, port) = six.split_once(']').ok_or(FORM)?;
                (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some("")).ok_or(FORM)?)
            }
            None => place.split_once(':').unwrap_or((place, "")),
        };
        let port = if port.is_empty() { 6_379 } else { port.parse().map_err(|_| FORM)? };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_plain) {
            return Err(FORM);
        }
        let (user, password) = match who.map(|who| who.split_once(':').unwrap_or((who, ""))) {
            None => (None, None),
            Some((user, password)) => (Some(plain(user)?), Some(plain(password)?)),
        };
        let set = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (user, password) = (set(user), set(password));
        if user.is_some() && password.is_none() {
            return Err("names a user without a password");
        }
        Ok(Self { host: host.to_owned(), port, user, password, database })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the password, nor whose it is.
        f.debug_struct("Address").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

/// Without the escapes of an address.
fn plain(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or(FORM);
        let value = digit(rest.next())? * 16 + digit(rest.next())?;
        bytes.push(u8::try_from(value).map_err(|_| FORM)?);
    }
    String::from_utf8(bytes).map_err(|_| FORM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e09_an_address_is_read_and_a_wrong_one_is_not_repeated() {
        let read = |url: &str| {
            let address = Address::parse(url).unwrap();
            (address.host, address.port, address.user, address.password, address.database)
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(read("redis://db"), ("db".to_owned(), 6_379, None, None, 0));
        assert_eq!(read("redis://:p%40s@10.0.0.1:7/3"), ("10.0.0.1".to_owned(), 7, None, text("p@s"), 3));
        assert_eq!(read("redis://ana:a@b@[::1]:9"), ("::1".to_owned(), 9, text("ana"), text("a@b"), 0));
        assert_eq!(read("redis://[fd00::1]/2"), ("fd00::1".to_owned(), 6_379, None, None, 2));
        for wrong in [
            "redis://",
            "redis://:secret@",
            "redis://:secret@h:port",
            "redis://:secret@h/db",
            "redis://:sec%zz@h",
            "redis://secret@h",
            "redis://:secret@h h",
            "redis://:secret@[::1",
            "rediss://:secret@h",
            "http://:secret@h",
        ] {
            let said = Address::parse(wrong).unwrap_err();
            assert!(!said.contains("secret"), "{said}");
        }
        let address = Address::parse("redis://ana:secret@h").unwrap();
        assert!(!format!("{address:?}").contains("secret"));
    }
}
