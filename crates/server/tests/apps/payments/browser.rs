//! A buyer's browser, as far as gateways need one: it follows forms.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A form of a page: where it goes, and what is in it already.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) action: String,
    pub(crate) fields: Vec<(String, String)>,
}

/// The first form of a page.
pub(crate) fn form(html: &str) -> Form {
    let form = html.split_once("<form").unwrap_or_else(|| panic!("no form in {html}")).1;
    let (head, rest) = form.split_once('>').expect("a whole tag");
    let body = rest.split_once("</form>").expect("a whole form").0;
    let mut fields = Vec::new();
    for input in body.split("<input").skip(1) {
        let tag = input.split_once('>').expect("a whole tag").0;
        if let (Some(name), Some(value)) = (attribute(tag, "name"), attribute(tag, "value")) {
            fields.push((name, value));
        }
    }
    Form { action: attribute(head, "action").expect("an action"), fields }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0;
    let plain = value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'");
    Some(plain.replace("&amp;", "&"))
}

/// A form's fields as they are sent.
pub(crate) fn encode(fields: &[(String, String)]) -> String {
    let escape = |text: &str| -> String {
        text.bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
            .collect()
    };
    let pairs: Vec<_> =
        fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

/// Sends a form to a server of this machine; gives its page.
pub(crate) async fn post(url: &str, body: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url} is not here"));
    let (address, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("is answered");
    let (head, page) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 20"), "{url}: {answer}");
    page.to_owned()
}
