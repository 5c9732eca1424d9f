//! A form with a picture, as a browser sends it. Whatever it is, there is an answer, which is no failure of the server's
//! own; what is refused is refused with a named field or as no form at all, and only what is a picture is kept.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::Target;
use crate::served::{ADMIN, Served, text_of, told};

const BOUNDARY: &str = "b0undary";
/// A server keeps the files; after so many it is another one.
const FORMS_EACH: usize = 2_000;
/// A picture of 256 pixels, so flat that its small one is made quickly.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\0\x01\x08\0\0\0\0\x142/\xab\
    \0\0\0\x0cIDATx\xdach\x18\xe1\0\0D\xc1\x80\x01\x9aw!\x08\0\0\0\0IEND\xaeB`\x82";

/// A server with a project.
pub struct Uploads {
    served: Served,
    left: usize,
}

impl Uploads {
    /// Without pictures.
    pub fn new() -> Result<Self, String> {
        let served = Served::new()?;
        served.ask("POST", "/api/v1/projects", &json!({"id": "p", "name": "Streets"}))?;
        Ok(Self { served, left: FORMS_EACH })
    }

    /// What it is answered.
    fn answer(&mut self, bytes: &[u8]) -> Result<StatusCode, String> {
        if self.left == 0 {
            *self = Self::new()?;
        }
        self.left -= 1;
        let request = Request::builder()
            .method("POST")
            .uri("/api/v1/projects/p/images")
            .header("authorization", format!("Bearer {ADMIN}"))
            .header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"))
            .body(Body::from(bytes.to_vec()))
            .map_err(told)?;
        let router = self.served.router.clone();
        let (status, text) = self.served.runtime.block_on(async {
            let Ok(answer) = router.oneshot(request).await;
            Ok::<_, String>((answer.status(), text_of(answer).await?))
        })?;
        let body: Value = serde_json::from_str(&text).map_err(|error| format!("{status} {text}: {error}"))?;
        let is_right = match (status.as_u16(), body["code"].as_str()) {
            (201, None) => body["width"] == 256 && body["height"] == 1,
            (422, Some("invalid")) => matches!(body["field"].as_str(), Some("file" | "name" | "body")),
            (400, Some("malformed")) | (413, Some("too_large")) => true,
            _ => false,
        };
        if is_right { Ok(status) } else { Err(format!("it is answered {status} {text}")) }
    }
}

impl Target for Uploads {
    fn corpus(&self) -> Option<Vec<Vec<u8>>> {
        let part = |head: &str, bytes: &[u8]| {
            let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n");
            [head.as_bytes(), bytes, b"\r\n"].concat()
        };
        let file = part("name=\"file\"; filename=\"a.png\"\r\nContent-Type: image/png", PNG);
        let named = part("name=\"file\"; filename=\"C:\\\\pictures\\\\a.png\"", PNG);
        let name = part("name=\"name\"", "crossing é".as_bytes());
        let end = format!("--{BOUNDARY}--\r\n");
        Some(vec![
            [&file[..], end.as_bytes()].concat(),
            [&name[..], &file, end.as_bytes()].concat(),
            [&named[..], &name, end.as_bytes()].concat(),
        ])
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.answer(bytes).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise nothing behind the first checks would see what is spoiled.
    #[test]
    fn the_forms_of_the_corpus_are_taken() {
        let mut uploads = Uploads::new().unwrap();
        for bytes in uploads.corpus().unwrap() {
            assert_eq!(uploads.answer(&bytes), Ok(StatusCode::CREATED), "{}", bytes.escape_ascii());
        }
    }
}
