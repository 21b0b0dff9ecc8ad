//! Stores to measure: made anew, or, large ones, made once and copied.

use std::fs;
use std::path::{Path, PathBuf};

use crate::corpus;
use crate::figures::Row;
use crate::load::Load;
use crate::run::{ENGINES, Run};

/// From so many messages on, stores are kept.
const KEPT_FROM: usize = 500_000;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Both stores in `folder` with all messages in them, and what it took to make them, now or once.
pub fn prepare(load: &Load, folder: &Path) -> Vec<Row> {
    if load.messages.len() < KEPT_FROM {
        return build(load, folder);
    }
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stores").join(&load.name);
    let noted = kept.join("built.json");
    let rows = if let Ok(text) = fs::read_to_string(&noted) {
        println!("{}: stores made earlier", load.name);
        serde_json::from_str(&text).unwrap()
    } else {
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept).unwrap();
        let rows = build(load, &kept);
        fs::write(&noted, serde_json::to_string(&rows).unwrap()).unwrap();
        rows
    };
    for (engine, _) in ENGINES {
        copy(&kept.join(engine), &folder.join(engine));
    }
    rows
}

fn build(load: &Load, folder: &Path) -> Vec<Row> {
    let files = folder.join("files");
    corpus::write_files(&load.messages, &files);
    let mut run = Run::open(load, folder);
    run.import(&files);
    let rows = run.finish();
    fs::remove_dir_all(&files).unwrap();
    rows
}
