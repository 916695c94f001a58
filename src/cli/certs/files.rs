//! Writing a set of files so that there is never half of it.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::cli::CliError;
use crate::files::read_regular;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    /// Everybody.
    Public,
    /// The owner.
    Secret,
}

/// A file to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewFile<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) secrecy: Secrecy,
}

/// Writes all files or none.
///
/// Each is written beside its place and synced first; only then they are put in place one after the other. When
/// one cannot be, those that already were are put back to what they had been.
pub(super) fn write(directory: &Path, files: &[NewFile<'_>], force: bool) -> Result<(), CliError> {
    let failed = |what: &Path, error: &io::Error| {
        CliError::Runtime(anyhow::anyhow!("{}: cannot be written: {error}", what.display()))
    };
    fs::create_dir_all(directory).map_err(|error| {
        CliError::Usage(format!("--dir {}: is no directory and cannot be made: {error}", directory.display()))
    })?;
    let mut places = Vec::new();
    for file in files {
        let place = directory.join(file.name);
        // A link that leads nowhere is there as well.
        if !force && fs::symlink_metadata(&place).is_ok() {
            let message = format!("{}: is there already; --force overwrites it", place.display());
            return Err(CliError::Usage(message));
        }
        let before = match read_regular(&place) {
            Ok(bytes) => {
                Some((bytes, fs::metadata(&place).map_err(|error| failed(&place, &error))?.permissions()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&place, &error)),
        };
        let temporary = prepare(directory, file).map_err(|error| failed(&place, &error))?;
        places.push((temporary, Place { path: place, before }));
    }
    let mut done: Vec<Place> = Vec::new();
    for (temporary, place) in places {
        let put =
            if force { temporary.persist(&place.path) } else { temporary.persist_noclobber(&place.path) };
        if let Err(error) = put {
            done.iter().for_each(Place::restore);
            return Err(failed(&place.path, &error.error));
        }
        done.push(place);
    }
    // The names are durable only with the directory.
    fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| failed(directory, &error))
}

fn prepare(directory: &Path, file: &NewFile<'_>) -> io::Result<NamedTempFile> {
    let mode = if file.secrecy == Secrecy::Secret { 0o600 } else { 0o644 };
    // It is made with the mode it keeps: a key is never readable by others, not even for a moment.
    let mut temporary = tempfile::Builder::new()
        .prefix(".plimsoll-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory)?;
    temporary.write_all(file.text.as_bytes())?;
    // The mode of a new file is narrowed by the umask.
    temporary.as_file().set_permissions(Permissions::from_mode(mode))?;
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

/// Where a file goes, and what was there.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    before: Option<(Vec<u8>, Permissions)>,
}

impl Place {
    /// Puts back what was there, as well as it can be done after a failure.
    fn restore(&self) {
        let restored = match &self.before {
            None => fs::remove_file(&self.path),
            Some((bytes, permissions)) => self.put_back(bytes, permissions),
        };
        if let Err(error) = restored {
            tracing::error!(file = %self.path.display(), %error, "the former file cannot be put back");
        }
    }

    fn put_back(&self, bytes: &[u8], permissions: &Permissions) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let mut temporary = NamedTempFile::new_in(directory)?;
        temporary.write_all(bytes)?;
        temporary.as_file().set_permissions(permissions.clone())?;
        temporary.persist(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_failure_in_the_middle_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a"), "old").unwrap();
        // A directory in the place of the last file: found before anything is touched.
        fs::create_dir(directory.path().join("c")).unwrap();
        let file = |name| NewFile { name, text: "new", secrecy: Secrecy::Public };
        assert!(write(directory.path(), &[file("a"), file("b"), file("c")], true).is_err());
        assert_eq!(names(directory.path()), ["a", "c"]);
        assert_eq!(fs::read_to_string(directory.path().join("a")).unwrap(), "old");
    }

    #[test]
    fn a_dangling_link_is_there_already() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", directory.path().join("b")).unwrap();
        let file = |name| NewFile { name, text: "new", secrecy: Secrecy::Public };
        let error = write(directory.path(), &[file("a"), file("b")], false).unwrap_err();
        assert_eq!(error.exit(), crate::cli::Exit::Usage, "{error}");
        assert!(error.to_string().contains("b: is there already; --force overwrites it"), "{error}");
        assert_eq!(names(directory.path()), ["b"]);
        write(directory.path(), &[file("a"), file("b")], true).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("b")).unwrap(), "new");
    }

    #[test]
    fn what_was_put_in_place_is_taken_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "new").unwrap();
        Place { path: path.clone(), before: Some((b"old".to_vec(), Permissions::from_mode(0o600))) }
            .restore();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        Place { path: path.clone(), before: None }.restore();
        assert!(!path.exists());
    }
}
