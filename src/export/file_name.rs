//! What the file of a session is called: its id, made safe for any folder.

use std::collections::HashSet;

use crate::model::SessionId;

/// Longest name before its extension, in bytes: file systems take 255 for all of it.
const MAX_STEM_BYTES: usize = 200;

/// Gives each session of one folder a name of its own. None leaves the folder, is hidden, or means something else to an
/// import.
#[derive(Debug, Default)]
pub struct FileNames {
    /// As a file system would compare them that does not tell upper and lower case.
    taken: HashSet<String>,
}

impl FileNames {
    /// The name without its extension. An id of letters, digits, `-`, `_`, `~` and dots is its own name.
    pub fn stem(&mut self, id: &SessionId) -> String {
        let id = id.as_str();
        let mut stem = encoded(id);
        if stem.len() > MAX_STEM_BYTES {
            stem.truncate(MAX_STEM_BYTES);
            stem += &format!("~{:016x}", hash(id));
        }
        while !self.taken.insert(stem.to_ascii_lowercase()) {
            stem += &format!("~{:08x}", hash(&format!("{stem}\n{id}")) & 0xffff_ffff);
        }
        stem
    }
}

fn encoded(id: &str) -> String {
    // Names that mean something beside a transcript: hidden files, copies, runtime events, indexes.
    let dots_mean_something = id.starts_with('.')
        || id.contains(".checkpoint.")
        || id.ends_with(".trajectory")
        || id.contains("sessions.json");
    let mut stem = String::with_capacity(id.len());
    for byte in id.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
        if is_plain || (byte == b'.' && !dots_mean_something) {
            stem.push(char::from(byte));
        } else {
            stem += &format!("%{byte:02X}");
        }
    }
    stem
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stem(id: &str) -> String {
        FileNames::default().stem(&SessionId::parse(id).unwrap())
    }

    #[test]
    fn a_name_stays_in_its_folder() {
        assert_eq!(stem("f27ed90b-adf9-4c6c-8830-dacda709d04f"), "f27ed90b-adf9-4c6c-8830-dacda709d04f");
        assert_eq!(stem("s1.2_a~0f"), "s1.2_a~0f");
        assert_eq!(stem("../../etc/passwd"), "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd");
        assert_eq!(stem(".."), "%2E%2E");
        assert_eq!(stem("C:\\x"), "C%3A%5Cx");
        assert_eq!(stem("a\0b\n"), "a%00b");
        assert_eq!(stem("a%2Fb"), "a%252Fb");
        assert_eq!(stem("日"), "%E6%97%A5");
        assert_eq!(stem("a.checkpoint.b"), "a%2Echeckpoint%2Eb");
        assert_eq!(stem("a.trajectory"), "a%2Etrajectory");
        assert_eq!(stem("sessions.json"), "sessions%2Ejson");
    }

    #[test]
    fn names_are_told_apart_where_case_is_not() {
        let mut names = FileNames::default();
        let mut stem = |id: &str| names.stem(&SessionId::parse(id).unwrap());
        let (long, longer) = ("x".repeat(300), "x".repeat(301));
        let names = [stem("abc"), stem("ABC"), stem("Abc"), stem(&long), stem(&longer)];
        let folded: HashSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
        assert_eq!(folded.len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| name.len() < 240), "{names:?}");
    }
}
