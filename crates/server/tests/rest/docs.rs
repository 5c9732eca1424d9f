//! The pages at `/docs`: readable, complete, nothing from another host.

use tenure_server::{CODES, TABLE};

use crate::server::Server;

#[tokio::test]
async fn the_page_shows_every_route_and_loads_nothing_but_its_style_sheet() {
    let s = Server::new();
    let page = s.get("", "/docs").await.status(200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'self'"), "{policy}");
    for rule in TABLE {
        assert!(
            page.text().contains(&format!("<code>{}</code>", rule.path)),
            "{} is not on the page",
            rule.path
        );
    }
    for path in ["/docs", "/docs/problems"] {
        let text = s.get("", path).await.status(200).text().to_owned();
        for other in ["http://", "https://", "//cdn", "<script", "style=\"", "onclick", "@import", "url("] {
            assert!(!text.contains(other), "{path} has {other}");
        }
        assert!(text.starts_with("<!doctype html>"));
        for tag in ["article", "section", "table", "code", "pre", "main", "p", "h3"] {
            let (opened, closed) = (
                text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count(),
                text.matches(&format!("</{tag}>")).count(),
            );
            assert_eq!(opened, closed, "{path}: <{tag}>");
        }
    }
    let style = s.get("", "/docs/style.css").await.status(200);
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
    assert!(!style.text().contains("url(") && !style.text().contains("@import"));
}

/// A problem's `type` leads to a place that is there.
#[tokio::test]
async fn every_code_has_its_place_on_the_problems_page() {
    let s = Server::new();
    let page = s.get("", "/docs/problems").await.status(200);
    for code in CODES {
        assert!(page.text().contains(&format!("id=\"{}\"", code.code)), "{} is not on the page", code.code);
    }
}

#[tokio::test]
async fn links_on_the_page_lead_to_places_on_it() {
    let s = Server::new();
    let page = s.get("", "/docs").await.status(200);
    let text = page.text();
    let links = text.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
    let mut count = 0;
    for link in links {
        assert!(text.contains(&format!("id=\"{link}\"")), "#{link} leads nowhere");
        count += 1;
    }
    assert!(count > 20);
}
