//! Ways to spoil a good request, each of which leaves nothing that could be right.

use serde_json::{Value, json};
use tenure_server::{May, TABLE};

use crate::random::Random;
use crate::templates::Template;
use crate::world::ADMIN;

/// A request that must be refused.
#[derive(Clone, Debug)]
pub(crate) struct Spoiled {
    /// How it was spoiled.
    pub(crate) how: &'static str,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(&'static str, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_batch: bool,
}

impl Spoiled {
    pub(crate) fn new(template: &Template) -> Self {
        let bearer = format!("Bearer {ADMIN}").into_bytes();
        let mut headers = vec![("host", b"localhost".to_vec()), ("authorization", bearer)];
        if template.body.is_some() {
            headers.push(("content-type", b"application/json".to_vec()));
        }
        if template.form.is_some() {
            headers.push(("content-type", b"application/x-www-form-urlencoded".to_vec()));
        }
        Self {
            how: "not at all",
            method: template.method.to_owned(),
            target: target(&template.path(), &query_of(template)),
            headers,
            body: match (&template.body, template.form) {
                (Some(body), _) => body.to_string().into_bytes(),
                (None, form) => form.unwrap_or_default().into(),
            },
            is_batch: template.is_batch,
        }
    }

    fn set(&mut self, name: &'static str, value: impl Into<Vec<u8>>) {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
    }
}

fn query_of(template: &Template) -> Vec<(String, String)> {
    template.query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn target(path: &str, query: &[(String, String)]) -> String {
    let fields: Vec<_> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if fields.is_empty() { path.to_owned() } else { format!("{path}?{}", fields.join("&")) }
}

/// Spoils a request in one way.
pub(crate) fn spoil(template: &Template, random: &mut Random) -> Spoiled {
    let mut request = Spoiled::new(template);
    loop {
        let how = match random.below(10) {
            0..=4 => body(&mut request, template, random),
            5 => query(&mut request, template, random),
            6 => params(&mut request, template, random),
            7 => Some(path(&mut request, template, random)),
            8 => method(&mut request, template, random),
            _ => headers(&mut request, template, random),
        };
        if let Some(how) = how {
            return Spoiled { how, ..request };
        }
    }
}

fn body(request: &mut Spoiled, template: &Template, random: &mut Random) -> Option<&'static str> {
    let good = template.body.as_ref()?;
    if random.below(17) == 0 {
        let kinds = ["text/plain", "application/xml", "application/jsonp", "x", "", "multipart/form-data"];
        request.set("content-type", random.one(&kinds));
        return Some("another content type");
    }
    let (how, bytes) = json(good, random)?;
    request.body = bytes;
    Some(how)
}

/// Spoils a JSON object.
pub(crate) fn json(good: &Value, random: &mut Random) -> Option<(&'static str, Vec<u8>)> {
    let text = good.to_string();
    let spoiled = match random.below(16) {
        0 => ("cut off", text.as_bytes()[..=random.below(text.len() - 1)].to_vec()),
        1 => ("rubbish", rubbish(random)),
        2 => ("something follows", format!("{text}{}", random.one(&["x", "{}", "]", "\0", ",", "1"])).into()),
        3 => ("no object", random.one(&["[]", "7", "\"x\"", "null", "true", "[{}]", "-0.5"]).into()),
        4 => ("begins with a mark", format!("\u{feff}{text}").into()),
        5 => ("another encoding", text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        6 => ("too long", format!("{text}{}", " ".repeat(1_100_000)).into()),
        7 => ("too deep", deep(good, random).into()),
        8 => ("a field twice", twice(good)?.into()),
        9 | 10 => ("an unknown field", unknown(good, random).into()),
        11 | 12 => ("a wrong type", wrong_type(good, random)?.into()),
        13 => ("an array for an object", listed(good, random)?.into()),
        14 => ("a wrong number", wrong_number(good, random)?.into()),
        _ => ("a wrong text", wrong_text(good, random)?),
    };
    Some(spoiled)
}

/// Bytes that are no JSON object.
fn rubbish(random: &mut Random) -> Vec<u8> {
    let mut bytes = random.bytes(200);
    bytes[0] = random.one(b"\x00\xff}]:,'<abz(");
    bytes
}

fn deep(good: &Value, random: &mut Random) -> String {
    let depth = 200 + random.below(5_000);
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let field = if good.get("data").is_some() { "data" } else { "extra" };
    let mut value = good.clone();
    value[field] = json!("@");
    value.to_string().replace("\"@\"", &deep)
}

/// Its first field again.
fn twice(good: &Value) -> Option<String> {
    let (name, value) = good.as_object()?.iter().next()?;
    Some(format!("{{\"{name}\":{value},{}", &good.to_string()[1..]))
}

/// Where a value of the wanted sort stands, outside of documents, which may be anything.
fn places(value: &Value, wanted: fn(&Value) -> bool) -> Vec<String> {
    fn walk(value: &Value, at: &str, wanted: fn(&Value) -> bool, found: &mut Vec<String>) {
        if wanted(value) {
            found.push(at.to_owned());
        }
        match value {
            Value::Object(fields) => {
                let is_free = |name: &str| matches!(name, "data" | "input" | "result");
                for (name, value) in fields.iter().filter(|(name, _)| !is_free(name)) {
                    walk(value, &format!("{at}/{name}"), wanted, found);
                }
            }
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    walk(value, &format!("{at}/{index}"), wanted, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(value, "", wanted, &mut found);
    found
}

fn at<'a>(value: &'a mut Value, place: &str) -> &'a mut Value {
    value.pointer_mut(place).expect("it was found there")
}

fn unknown(good: &Value, random: &mut Random) -> String {
    let places = places(good, Value::is_object);
    let mut value = good.clone();
    let names = ["surprise", "__proto__", "Collection", "items ", "", "id\u{0}", "$where", "claimId"];
    let name = random.one(&names);
    at(&mut value, &random.one(&places))[name] = random.one(&[json!(1), json!(null), json!({}), json!("x")]);
    value.to_string()
}

fn wrong_type(good: &Value, random: &mut Random) -> Option<String> {
    let places = places(good, |value| !value.is_null());
    let place = random.one(&places);
    let mut value = good.clone();
    let spot = at(&mut value, &place);
    let others = [json!("x"), json!(7), json!(1.5), json!(true), json!([]), json!({}), json!([[]])];
    let is_other = |other: &&Value| std::mem::discriminant(*other) != std::mem::discriminant(spot);
    let others: Vec<_> = others.iter().filter(is_other).collect();
    if place.is_empty() {
        return None;
    }
    *spot = random.one(&others).clone();
    Some(value.to_string())
}

/// The fields' values without their names.
fn listed(good: &Value, random: &mut Random) -> Option<String> {
    let places = places(good, |value| value.as_object().is_some_and(|fields| !fields.is_empty()));
    let mut value = good.clone();
    let spot = at(&mut value, places.get(random.below(places.len().max(1)))?);
    *spot = spot.as_object()?.values().cloned().collect();
    Some(value.to_string())
}

fn wrong_number(good: &Value, random: &mut Random) -> Option<String> {
    let places = places(good, Value::is_number);
    if places.is_empty() {
        return None;
    }
    let mut value = good.clone();
    let place = at(&mut value, &random.one(&places));
    let was_float = place.is_f64();
    *place = json!("@");
    let numbers = [
        "-1",
        "1.5",
        "1e400",
        "1e30",
        "18446744073709551616",
        "-9223372036854775809",
        "NaN",
        "Infinity",
        "0x10",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "--1",
        "9223372036854775807000",
    ];
    let number = match random.one(&numbers) {
        // Right where any number is.
        "1.5" if was_float => "-1.5",
        number => number,
    };
    Some(value.to_string().replace("\"@\"", number))
}

fn wrong_text(good: &Value, random: &mut Random) -> Option<Vec<u8>> {
    let places = places(good, Value::is_string);
    if places.is_empty() {
        return None;
    }
    let mut value = good.clone();
    *at(&mut value, &random.one(&places)) = json!("@");
    let text = value.to_string();
    let (before, after) = text.split_once("\"@\"").expect("it was put there");
    let long = format!("\"{}\"", "long".repeat(1_500)).into_bytes();
    let texts: [&[u8]; 10] = [
        b"\"\xff\"",
        b"\"\xc0\xaf\"",
        b"\"\xed\xa0\x80\"",
        b"\"\\ud800\"",
        b"\"\\udc00\\ud800\"",
        b"\"a\nb\"",
        b"\"\\x\"",
        b"\"\\u00g0\"",
        b"'a'",
        &long,
    ];
    Some([before.as_bytes(), random.one(&texts), after.as_bytes()].concat())
}

fn query(request: &mut Spoiled, template: &Template, random: &mut Random) -> Option<&'static str> {
    if !template.reads_query {
        return None;
    }
    let mut fields = query_of(template);
    let how = if fields.is_empty() || random.below(3) == 0 {
        let name =
            random.one(&["surprise", "Limit", "%00", "limit%5B%5D", "a.b", "token%FF", "%", "__proto__"]);
        fields.push((name.to_owned(), "1".to_owned()));
        "an unknown query field"
    } else {
        let index = random.below(fields.len());
        if random.below(4) == 0 {
            fields.push(fields[index].clone());
            "a query field twice"
        } else {
            let long = "9".repeat(300);
            let values = ["%00", "%0A%01", &long, "\u{7f}%7F", "%00%FF"];
            random.one(&values).clone_into(&mut fields[index].1);
            "a wrong query field"
        }
    };
    request.target = target(&template.path(), &fields);
    Some(how)
}

fn params(request: &mut Spoiled, template: &Template, random: &mut Random) -> Option<&'static str> {
    if template.params.is_empty() {
        return None;
    }
    let mut spoiled = template.clone();
    let index = random.below(spoiled.params.len());
    let long = "a".repeat(400);
    let values = [
        "%00",
        "%FF",
        "%C0%AF",
        "%ED%A0%80",
        "%",
        "%4",
        "%ZZ",
        "a%2",
        "%u0041",
        "..",
        "%2E%2E",
        "%0A",
        "%7F",
        &long,
        "%2E",
        ".",
    ];
    random.one(&values).clone_into(&mut spoiled.params[index]);
    request.target = target(&spoiled.path(), &query_of(template));
    Some("a wrong path parameter")
}

fn path(request: &mut Spoiled, template: &Template, random: &mut Random) -> &'static str {
    let path = template.path();
    let spoiled = match random.below(8) {
        0 => format!("{path}/"),
        1 => format!("/{path}"),
        2 => format!("{path}/.."),
        3 => format!("/v1/..{path}"),
        4 => path.replacen("/v1/", "/v1//", 1) + "/",
        5 => format!("{path}%2"),
        6 => format!("{path}%00"),
        _ => path.to_uppercase(),
    };
    // By this one a page is meant, and whoever types it is led there.
    let spoiled = if spoiled == "/docs/" { "/docs//".to_owned() } else { spoiled };
    request.target = target(&spoiled, &query_of(template));
    "a wrong path"
}

fn method(request: &mut Spoiled, template: &Template, random: &mut Random) -> Option<&'static str> {
    let names =
        ["PATCH", "TRACE", "BREW", "PROPFIND", "get", "GETT", "PUT", "POST", "DELETE", "GET", "M-SEARCH"];
    let name = random.one(&names);
    if TABLE.iter().any(|rule| rule.path == template.route && rule.method == name) {
        return None;
    }
    name.clone_into(&mut request.method);
    Some("a wrong method")
}

fn headers(request: &mut Spoiled, template: &Template, random: &mut Random) -> Option<&'static str> {
    let rule = TABLE.iter().find(|rule| rule.path == template.route && rule.method == template.method)?;
    let is_public = matches!(rule.may, May::Anyone);
    match random.below(4) {
        0 if template.body.is_some() => {
            let long = "k".repeat(300);
            let values: [&[u8]; 5] = [b"", b"a b", b"\xff\xfe", b"\xc3\xa4", long.as_bytes()];
            request.set("idempotency-key", random.one(&values));
            Some("a wrong idempotency key")
        }
        1 if template.body.is_some() => {
            request.headers.extend([("idempotency-key", b"a".to_vec()), ("idempotency-key", b"b".to_vec())]);
            Some("two idempotency keys")
        }
        2 if !is_public => {
            // {"alg":"none"} and somebody.
            let none = "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0.";
            let long = format!("Bearer {}", "tnr_".repeat(1_500));
            let values: [&[u8]; 9] = [
                b"",
                b"Bearer",
                b"Bearer ",
                b"Basic cm9vdDpyb290",
                b"Bearer \xff\xfe",
                b"Bearer tnr_a b",
                none.as_bytes(),
                long.as_bytes(),
                b"tnr_the-administrators-own-ke",
            ];
            request.set("authorization", random.one(&values));
            Some("wrong credentials")
        }
        3 if !is_public => {
            request.headers.retain(|(name, _)| *name != "authorization");
            let values: [&[u8]; 4] = [b"tenure_session=x", b"__Host-tenure_session=\xff", b"=;=;", b"a"];
            request.set("cookie", random.one(&values));
            Some("a wrong cookie")
        }
        _ if template.route.ends_with("{name}/items/{item}") && template.method != "GET" => {
            let values: [&[u8]; 6] = [b"x", b"\"a\"", b"W/\"1\"", b"\"1\", \"2\"", b"\xff", b"\"-1\""];
            request.set("if-match", random.one(&values));
            Some("a wrong If-Match")
        }
        _ if template.route.ends_with("/events") => {
            request.target = template.path();
            request.set("accept", "text/event-stream");
            let values: [&[u8]; 5] = [b"x", b"1", b"1-", b"\xff-1", b"1-2-3"];
            request.set("last-event-id", random.one(&values));
            Some("a wrong Last-Event-ID")
        }
        _ => None,
    }
}
