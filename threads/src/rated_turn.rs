//! A turn whose answer is rated: the models that it asked, and its last rating.

use shared::{Event, Rating};
use store::{AskedModel, Ratings, TurnId};

use crate::asked_models::AskedModels;

/// A turn whose answer is rated.
#[derive(Debug)]
pub struct RatedTurn {
    turn: TurnId,
    is_open: bool,
    asked: AskedModels,
    last: Option<Rating>,
}

impl RatedTurn {
    /// Starts before the first event of a turn.
    pub fn new(turn: TurnId) -> Self {
        Self { turn, is_open: false, asked: AskedModels::default(), last: None }
    }

    /// Reads the next event of the log.
    pub fn read(&mut self, event: &Event) {
        if let Some(started) = event.turn_started() {
            self.is_open = started == self.turn;
        }
        if self.is_open {
            let _ = self.asked.read(event);
        }
        if let Event::Rated(rated) = event
            && rated.turn == self.turn
        {
            self.last = Some(rated.rating);
        }
    }

    /// Returns the change of the counts by another rating: of each model that the turn asked, and of the strategy itself, whose node
    /// and model are empty. A later rating replaces an earlier one.
    pub fn rate(&self, rating: Rating) -> Vec<(AskedModel, Ratings)> {
        let of = |wanted| i64::from(rating == wanted) - i64::from(self.last == Some(wanted));
        let change = Ratings { good: of(Rating::Good), bad: of(Rating::Bad) };
        if change == Ratings::default() {
            return Vec::new();
        }
        let strategy = AskedModel::default();
        self.asked.of_turn().cloned().chain([strategy]).map(|asked| (asked, change)).collect()
    }
}
