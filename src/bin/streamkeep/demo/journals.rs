//! The folder the demo keeps its journals in, and the store in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use streamkeep::store::SledStore;
use streamkeep::{Client, Credential, Error, ErrorKind, Result};

/// How long a writer's claim is good without being renewed. The shortest there is:
/// somebody watches while the killed writer's claim runs out.
pub(super) const LEASE: Duration = Duration::from_secs(1);

/// The folder of the journals. The store in it is open in one process at a time, so
/// the story in which a child writes closes it here first.
#[derive(Debug)]
pub(super) struct Journals {
    folder: PathBuf,
    /// Whether it goes with the demo.
    temporary: bool,
    open: Mutex<Option<Arc<SledStore>>>,
}

impl Journals {
    /// In this folder, which stays.
    pub(super) fn in_folder(folder: PathBuf) -> Self {
        Self {
            folder,
            temporary: false,
            open: Mutex::default(),
        }
    }

    /// In a new folder of this user alone, under the system's folder for such.
    pub(super) fn in_temporary_folder(keep: bool) -> Result<Self> {
        let name = format!("streamkeep-demo-{}", uuid::Uuid::now_v7().simple());
        let folder = std::env::temp_dir().join(name);
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder).map_err(|error| {
            let message = format!(
                "expected to make a folder under {}, but could not",
                std::env::temp_dir().display()
            );
            Error::new(ErrorKind::StoreUnavailable, message).with_source(error)
        })?;
        Ok(Self {
            temporary: !keep,
            ..Self::in_folder(folder)
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn are_temporary(&self) -> bool {
        self.temporary
    }

    /// Opens the store, if it is not open, and gives a client over it.
    pub(super) async fn client(&self, credential: Option<Credential>) -> Result<Client> {
        let open = self.lock().clone();
        let store = if let Some(store) = open {
            store
        } else {
            let store = Arc::new(SledStore::open(&self.folder).await?);
            *self.lock() = Some(Arc::clone(&store));
            store
        };
        let builder = Client::builder().shared_store(store).lease(LEASE);
        match credential {
            Some(credential) => builder.credential(credential).build(),
            None => builder.build(),
        }
    }

    /// Closes the store, so that another process can open it.
    pub(super) async fn close(&self) {
        let open = self.lock().take();
        if let Some(store) = open {
            store.close().await;
        }
    }

    /// Closes the store, and removes the folder unless it is to stay.
    pub(super) async fn finish(&self) -> Result<()> {
        self.close().await;
        if !self.temporary {
            return Ok(());
        }
        fs::remove_dir_all(&self.folder).map_err(|error| {
            let message = format!(
                "expected to remove {}, but could not",
                self.folder.display()
            );
            Error::new(ErrorKind::StoreUnavailable, message).with_source(error)
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<SledStore>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
