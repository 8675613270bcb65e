//! The page: one file without resources from elsewhere.

use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::text::base64;

const PAGE: &str = include_str!("page.html");

/// Returns the policy that lets a browser run this page's script, apply its styles, and load nothing else.
pub(super) fn policy() -> String {
    let [script, style] = ["script", "style"].map(|tag| hash(inside(PAGE, tag)));
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// Returns the page with its policy.
pub(super) fn answer(policy: &str) -> Response {
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(PAGE)).into_response()
}

/// Returns the text of the only element of a name that has no attributes.
fn inside<'p>(page: &'p str, tag: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("<{tag}>")).expect("the page has the element");
    rest.split_once(&format!("</{tag}>")).expect("the element has an end").0
}

fn hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page names no other place and builds no element from text, and the policy has the hashes of its two parts.
    #[test]
    fn the_page_stands_alone() {
        for tag in ["script", "style"] {
            assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1, "{tag}");
        }
        let without_names = PAGE.replace("http://www.w3.org/2000/svg", "");
        for word in [
            "http:",
            "https:",
            "src=",
            "url(",
            "@import",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "style=",
            "onclick=",
        ] {
            assert!(!without_names.contains(word), "{word}");
        }
        // The hash of an empty text, by `printf '' | openssl dgst -sha256 -binary | base64`.
        assert_eq!(hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        let policy = policy();
        assert!(policy.contains(&format!("script-src '{}'", hash(inside(PAGE, "script")))), "{policy}");
    }
}
