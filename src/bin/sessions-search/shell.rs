//! Commands that are printed to be copied: words that a shell reads back as they are.

use std::fmt::Write as _;

use crate::output::is_control;

/// How the program is called to work at the same place, on the same eyes: for commands that are printed.
pub(crate) struct Call {
    pub(crate) program: String,
    /// The options that say on whose eyes.
    pub(crate) eyes: String,
}

impl Call {
    /// The command that opens a conversation, with further options.
    pub(crate) fn history(&self, key: &str, options: &str) -> String {
        let Self { program, eyes } = self;
        if key.starts_with('-') {
            return format!("{program} history{options}{eyes} -- {}", shell_word(key));
        }
        format!("{program} history {}{options}{eyes}", shell_word(key))
    }
}

/// A word that a shell reads back unchanged, and that shows nothing but itself.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    // zsh looks for a program behind a leading `=`.
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('=') {
        return text.to_owned();
    }
    if !text.chars().any(is_control) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut word = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            c if is_control(c) => {
                // Three octal digits are the one escape that ends by itself.
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                    let _ = write!(word, "\\{byte:03o}");
                });
            }
            c => word.push(c),
        }
    }
    word + "'"
}

/// `--name value`, also for a value that looks like an option.
pub(crate) fn shell_option(name: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!(" {name}{between}{}", shell_word(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_read_back_unchanged() {
        assert_eq!(shell_word("agent:main:main"), "agent:main:main");
        assert_eq!(shell_word("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!((shell_word(""), shell_word("=ls"), shell_word("a=b")), ("''".into(), "'=ls'".into(), "a=b".into()));
        assert_eq!(shell_word("e\x1b[1m'\\"), r"$'e\033[1m\'\\'");
        assert_eq!(shell_word("a\u{202e}1"), r"$'a\342\200\2561'");
        assert_eq!(shell_option("--message-id", "-x"), " --message-id=-x");
        assert_eq!(shell_option("--message-id", "x"), " --message-id x");
    }
}
