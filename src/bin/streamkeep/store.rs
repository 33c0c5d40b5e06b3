//! Where the journals are, and who has them open.

use crate::control::{self, Gone};
use crate::feed::{Feed, Wish};
use crate::hints::Hints;
use crate::line::Line;
use crate::remote::Remote;
use crate::report::{self, Entry, Report, Wanted};
use crate::talk::Talk;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use streamkeep::client::ClientBuilder;
use streamkeep::proto::journal::Status;
use streamkeep::proto::model::WallTime;
use streamkeep::store::{SledStore, Store};
use streamkeep::{Client, Error, ErrorKind, Key, Result};
use tokio::time::{Instant, sleep};

/// Where a store is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    spot: Spot,
    /// Whether it is the folder that is taken when nothing names another.
    is_default: bool,
    /// Whether the command line named it.
    by_flag: bool,
}

#[derive(Clone, Debug)]
enum Spot {
    /// An embedded one in this folder, for one process at a time.
    Folder(PathBuf),
    /// One in Redis, for any number of them.
    Redis(Remote),
}

/// The environment variable that names the store.
const VARIABLE: &str = "STREAMKEEP_STORE";

/// How long a writer's claim is good without being renewed. One process at a
/// time has an embedded store open, so a claim that is left over is a dead
/// writer's: it is waited for, and short for that reason.
const LEASE: Duration = Duration::from_secs(5);

/// The longest claim that is waited for. The library's own is 30 s.
const LONGEST_CLAIM: Duration = Duration::from_secs(60);

/// How long to wait for a store that another command has open for a moment.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(25);

/// A store to read from: opened here, or the process that has it open.
#[derive(Debug)]
pub(crate) enum Access {
    /// This process has it open. `alone` says that no other one has.
    Here { store: Arc<dyn Store>, alone: bool },
    /// Another process has it open and answers for it.
    There(control::Connection),
}

impl Place {
    /// The folder, if the command line named one. The demo takes no other: what it
    /// breaks does not belong among the answers of somebody's everyday store.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the command line named a Redis: the demo opens and
    /// closes what it works in.
    pub(crate) fn given(&self) -> Result<Option<PathBuf>> {
        match &self.spot {
            _ if !self.by_flag => Ok(None),
            Spot::Folder(folder) => Ok(Some(folder.clone())),
            Spot::Redis(_) => Err(Error::new(
                ErrorKind::Config,
                "expected a folder for the demo's store, but found the URL of a Redis",
            )),
        }
    }

    /// The embedded store's folder, where the processes that work with it meet.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.spot {
            Spot::Folder(folder) => Some(folder),
            Spot::Redis(_) => None,
        }
    }

    /// The place that the flag names, else the environment, else the usual folder.
    pub(crate) fn find(flag: Option<PathBuf>) -> Self {
        let by_flag = flag.is_some();
        let named = flag.or_else(|| {
            std::env::var_os(VARIABLE)
                .filter(|dir| !dir.is_empty())
                .map(PathBuf::from)
        });
        let usual = || Spot::Folder(PathBuf::from(".streamkeep").join("store"));
        let spot = named.map(|place| match place.to_str() {
            Some(url) if Remote::is_meant(url) => Spot::Redis(Remote::named(url, by_flag)),
            _ => Spot::Folder(place),
        });
        let spot = spot.or_else(|| Remote::in_environment().map(Spot::Redis));
        let is_default = spot.is_none();
        let spot = spot.unwrap_or_else(usual);
        Self {
            spot,
            is_default,
            by_flag,
        }
    }

    /// Opens the store to write, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`] with the process that has it open; otherwise the
    /// store's own error.
    pub(crate) async fn open_to_write(&self) -> Result<Arc<dyn Store>> {
        let folder = match &self.spot {
            Spot::Folder(folder) => folder,
            Spot::Redis(remote) => return remote.open().await,
        };
        self.make_folder(folder)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = match SledStore::open(folder).await {
                Ok(store) => return Ok(Arc::new(store)),
                Err(error) => error,
            };
            if error.kind() != ErrorKind::StoreUnavailable {
                return Err(error);
            }
            if let Some(there) = control::Connection::open(folder).await? {
                return Err(there.in_use(folder));
            }
            // A command such as `list` has it open for a moment only.
            if Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    /// Opens a store that is there to write.
    pub(crate) async fn open_existing(&self) -> Result<Arc<dyn Store>> {
        if let Spot::Folder(folder) = &self.spot {
            must_exist(folder)?;
        }
        self.open_to_write().await
    }

    /// Reaches the store to read.
    pub(crate) async fn open_to_read(&self) -> Result<Access> {
        let folder = match &self.spot {
            Spot::Folder(folder) => folder,
            Spot::Redis(remote) => {
                return Ok(Access::Here {
                    store: remote.open().await?,
                    alone: false,
                });
            }
        };
        must_exist(folder)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(there) = control::Connection::open(folder).await? {
                return Ok(Access::There(there));
            }
            match SledStore::open(folder).await {
                Ok(store) => {
                    return Ok(Access::Here {
                        store: Arc::new(store),
                        alone: true,
                    });
                }
                Err(error)
                    if error.kind() != ErrorKind::StoreUnavailable
                        || Instant::now() >= deadline =>
                {
                    return Err(error);
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Makes the folder, for the owner alone: journals hold prompts and answers.
    pub(crate) fn make_folder(&self, folder: &Path) -> Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let failed = |error: std::io::Error| {
            Error::new(
                ErrorKind::StoreUnavailable,
                format!(
                    "expected to make the folder {}, but could not",
                    folder.display()
                ),
            )
            .with_source(error)
        };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(failed)?;
        if self.is_default
            && let Some(parent) = folder.parent()
        {
            // Prompts must not be committed by accident. Nothing hangs on it.
            let _ = fs::write(parent.join(".gitignore"), "*\n");
        }
        Ok(())
    }
}

fn must_exist(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "expected a store in {}, but found no such folder; `streamkeep send` makes one, \
             --store or ${VARIABLE} names another",
            folder.display()
        ),
    ))
}

/// A client in the making over a store that this process has open.
pub(crate) fn client(store: Arc<dyn Store>) -> ClientBuilder {
    Client::builder().shared_store(store).lease(LEASE)
}

/// Waits for the claim of a writer that died, if there is one: this process has an
/// embedded store to itself, so nobody else can be writing. Who holds a claim in Redis
/// may well be alive.
pub(crate) async fn outlive(place: &Place, client: &Client, key: &Key, talk: &Talk) -> Result<()> {
    if place.folder().is_none() {
        return Ok(());
    }
    let state = match client.state(key).await {
        Ok(state) => state,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Expired) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let Some(until) = state.leased_until else {
        return Ok(());
    };
    let left = until.since(now()).min(LONGEST_CLAIM);
    if left.is_zero() {
        return Ok(());
    }
    let what = match state.status {
        Status::Running => "the process that wrote this answer ended before the answer did",
        Status::Interrupted | Status::Ended(_) => "the last writer of this answer did not sign off",
    };
    talk.say(format_args!(
        "{what}; its claim runs out in {}",
        crate::format::time(left)
    ));
    sleep(left + Duration::from_millis(1)).await;
    Ok(())
}

/// The wall clock.
pub(crate) fn now() -> WallTime {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    WallTime::from_millis(0).after(since)
}

impl Access {
    /// What `show` tells.
    pub(crate) async fn report(self, wanted: Wanted) -> Result<Report> {
        match self {
            Self::Here { store, alone } => {
                report::report(&client(store).build()?, &wanted, alone).await
            }
            Self::There(there) => there.show(wanted).await,
        }
    }

    /// The rows of `list`.
    pub(crate) async fn entries(self) -> Result<Vec<Entry>> {
        match self {
            Self::Here { store, alone } => report::entries(&client(store).build()?, alone).await,
            Self::There(there) => there.list().await,
        }
    }

    /// The records of an answer as lines.
    pub(crate) async fn feed(self, wish: &Wish) -> Result<Lines> {
        match self {
            Self::Here { store, alone } => {
                let client = client(store).build()?;
                Ok(Lines::Here(Box::new(
                    Feed::open(&client, wish, alone).await?,
                )))
            }
            Self::There(there) => Ok(Lines::There(there.follow(wish).await?)),
        }
    }
}

/// The records of one answer, from wherever they come.
#[derive(Debug)]
pub(crate) enum Lines {
    Here(Box<Feed>),
    There(control::Following),
}

impl Lines {
    /// The next line; `None` after the last one.
    ///
    /// # Cancel safety
    ///
    /// A future dropped before it was ready loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Line>, Gone> {
        match self {
            Self::Here(feed) => Ok(feed.next().await?),
            Self::There(following) => following.next().await,
        }
    }
}

impl Place {
    /// Commands to type next name the same store.
    pub(crate) fn hints(&self) -> Hints {
        let named = match &self.spot {
            Spot::Folder(folder) => folder,
            // Whoever set the environment has it set for the next command too.
            Spot::Redis(_) if !self.by_flag => return Hints::new(None),
            Spot::Redis(remote) => remote.shown(),
        };
        let is_known = self.is_default
            || std::env::var_os(VARIABLE).is_some_and(|dir| Path::new(&dir) == named);
        Hints::new((!is_known).then(|| named.to_owned()))
    }
}

/// As it is told to a person: never with a password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spot {
            Spot::Folder(folder) => write!(f, "{}", folder.display()),
            Spot::Redis(remote) => write!(f, "{}", remote.shown().display()),
        }
    }
}
