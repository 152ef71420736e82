//! Text that comes from a guest or from a tool's error: made safe for terminals, logs and other people's errors.

/// The longest one-line message that a caller gets, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 512;

/// The longest line in a grain's log, in bytes.
pub(crate) const LOG_LINE_BYTES_MAX: usize = 4 << 10;

/// `text` as one line: control characters and invisible direction marks escaped, cut at `bytes_max` with `…`.
pub(crate) fn bounded(text: &str, bytes_max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(bytes_max));
    for char in text.chars() {
        let before = out.len();
        if harmless(char) {
            out.push(char);
        } else {
            out.extend(char.escape_default());
        }
        if out.len() > bytes_max {
            out.truncate(before);
            while out.len() + '…'.len_utf8() > bytes_max && out.pop().is_some() {}
            out.push('…');
            break;
        }
    }
    out
}

/// `text` in at most `bytes_max` bytes, made harmless like [`bounded`], with `…` in its middle: the start says where
/// something is, the end says what is wrong with it.
pub(crate) fn shortened(text: &str, bytes_max: usize) -> String {
    let harmless = bounded(text, usize::MAX);
    if harmless.len() <= bytes_max {
        return harmless;
    }
    let half = bytes_max.saturating_sub('…'.len_utf8()) / 2;
    let head = harmless.floor_char_boundary(half);
    let tail = harmless.ceil_char_boundary(harmless.len() - half);
    format!("{}…{}", harmless.get(..head).unwrap_or_default(), harmless.get(tail..).unwrap_or_default())
}

/// The first line that says something, bounded for a caller.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    bounded(line, MESSAGE_BYTES_MAX)
}

/// Everything but control characters and the marks that reorder or hide text on a screen.
fn harmless(char: char) -> bool {
    !char.is_control()
        && !matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_length_is_bounded() {
        assert_eq!(bounded("a\u{1b}[31m\tb\u{202e}", 100), "a\\u{1b}[31m\\tb\\u{202e}");
        assert_eq!(bounded("grün", 100), "grün");
        let cut = bounded(&"ü".repeat(100), 11);
        assert_eq!(cut, "üüüü…");
        assert!(bounded(&"\u{1b}".repeat(100), 20).len() <= 20);
    }

    #[test]
    fn a_shortened_text_keeps_both_ends() {
        assert_eq!(shortened("short\n", 100), "short\\n");
        assert_eq!(shortened(&format!("here: {} is wrong", "x".repeat(100)), 23), "here: xxxx…x is wrong");
        assert!(shortened(&"ü".repeat(100), 30).len() <= 30);
    }

    #[test]
    fn the_first_line_skips_blank_ones() {
        assert_eq!(first_line("\n  \n wrong at 0x10\nbacktrace"), "wrong at 0x10");
    }
}
