//! Content negotiation of the health check: text, HTML or JSON, in this order of preference.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `text/plain`
    Text,
    /// `text/html`
    Html,
    /// `application/json`
    Json,
}

const OFFERS: [(Form, &str, &str); 3] =
    [(Form::Text, "text", "plain"), (Form::Html, "text", "html"), (Form::Json, "application", "json")];

/// The accepted form of the highest quality; text where none is accepted: a health check never answers 406.
pub(crate) fn form(headers: &HeaderMap) -> Form {
    let lines: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    if lines.is_empty() {
        return Form::Text;
    }
    let ranges: Vec<Range<'_>> =
        lines.iter().flat_map(|line| line.split(',')).filter_map(Range::parse).collect();
    let mut best = (Form::Text, 0);
    for (form, kind, sub) in OFFERS {
        // The most specific range that matches decides.
        let matching = ranges.iter().filter(|range| range.matches(kind, sub));
        let quality = matching.max_by_key(|range| range.specificity()).map_or(0, |range| range.quality);
        if quality > best.1 {
            best = (form, quality);
        }
    }
    best.0
}

struct Range<'a> {
    kind: &'a str,
    sub: &'a str,
    /// In thousandths.
    quality: u32,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, sub) = parts.next()?.split_once('/')?;
        let quality = parts.find_map(|p| p.strip_prefix("q=").or_else(|| p.strip_prefix("Q=")));
        let quality: f32 = quality.map_or(Some(1.0), |q| q.parse().ok())?;
        Some(Self { kind, sub, quality: (quality.clamp(0.0, 1.0) * 1000.0) as u32 })
    }

    fn matches(&self, kind: &str, sub: &str) -> bool {
        let fits = |have: &str, want: &str| have == "*" || have.eq_ignore_ascii_case(want);
        fits(self.kind, kind) && fits(self.sub, sub)
    }

    fn specificity(&self) -> u32 {
        u32::from(self.kind != "*") + u32::from(self.sub != "*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accepted_form_wins_and_text_is_the_rest() {
        for (accept, expected) in [
            ("text/plain", Form::Text),
            ("text/html", Form::Html),
            ("application/json", Form::Json),
            ("*/*", Form::Text),
            ("text/*", Form::Text),
            ("application/*", Form::Json),
            ("text/plain;q=0.5, application/json", Form::Json),
            ("text/plain;q=0, */*", Form::Html),
            ("image/png", Form::Text),
            ("nonsense", Form::Text),
            ("application/json;q=0.9, text/html;q=0.9", Form::Html),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(form(&headers), expected, "{accept}");
        }
        assert_eq!(form(&HeaderMap::new()), Form::Text);
    }
}
