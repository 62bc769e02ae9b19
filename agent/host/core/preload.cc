#include "agent/host/core/preload.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::host {
namespace {

constexpr size_t kMaxNamed = 4;  // modules named in one line
constexpr char kHasEnded[] = "has ended";
constexpr char kWasEnded[] = "was ended";

std::string Named(const std::vector<std::string>& modules) {
  const size_t shown = std::min(modules.size(), kMaxNamed);
  std::string text = absl::StrJoin(modules.begin(), modules.begin() + static_cast<ptrdiff_t>(shown), ", ");
  if (modules.size() > shown) absl::StrAppend(&text, " and ", modules.size() - shown, " more");
  return text;
}

// "2.13s", "3ms".
std::string Took(absl::Duration took) {
  const absl::Duration unit = took < absl::Milliseconds(100) ? absl::Milliseconds(1) : absl::Milliseconds(10);
  return absl::FormatDuration(std::max(absl::Trunc(took, unit), absl::Milliseconds(1)));
}

// The package that a module is in: "torch" of "torch.nn".
std::string_view PackageOf(std::string_view module) { return module.substr(0, module.find('.')); }

}  // namespace

Preload::Preload(PreloadOptions options)
    : options_(std::move(options)),
      modules_(options_.modules),
      holds_(options_.learns || !options_.modules.empty()),
      keeps_(!options_.modules.empty()) {}

void Preload::Begin(BootTime now, Effects* out) {
  if (!holds_ || std::exchange(has_begun_, true)) return;
  holds_until_ = now + kFirstPreloadLimit;
  Start(now, out);
}

void Preload::Start(BootTime now, Effects* out) {
  state_ = State::kStarting;
  started_at_ = now;
  retry_at_ = absl::InfiniteFuture();
  out->push_back(StartPreloader{.modules = modules_, .learned = options_.learns});
}

bool Preload::OnTick(BootTime now, Effects* out) {
  if (state_ == State::kPausing && now >= retry_at_) Start(now, out);
  if (state_ == State::kStarting && now - started_at_ >= kPreloadLimit) {
    out->push_back(StopPreloader{});
    return OnEnded(now, kWasEnded, absl::StrCat("its import took over ", absl::FormatDuration(kPreloadLimit)),
                   out);
  }
  if (now >= learned_at_) {
    keeps_ = true;
    learned_at_ = absl::InfiniteFuture();
    out->push_back(ReadLearned{});
  }
  if (!holds_ || now < holds_until_) return false;
  Say(Severity::kWarning,
      absl::StrCat("--preload: ", Modules(), " not imported within ", absl::FormatDuration(kFirstPreloadLimit),
                   "; until that is done workers start normally"),
      out);
  return StopHolding();
}

bool Preload::OnNews(BootTime now, const PreloadNews& news, Effects* out) {
  if (state_ == State::kOff) return false;
  switch (news.kind) {
    case PreloadNews::kReady:
      return OnReady(news, out);
    case PreloadNews::kUnsafe:
      return OnUnsafe(now, news, out);
    case PreloadNews::kEnded:
      return OnEnded(now, kHasEnded, news.why, out);
    case PreloadNews::kForked:
      OnForked(now);
      return false;
    case PreloadNews::kLearned:
      OnLearned(now, news.names, out);
      return false;
    case PreloadNews::kStale:
      Say(Severity::kInfo,
          absl::StrCat("--preload: ", news.why,
                       ": the workers of this round start normally, those of the next from a new import"),
          out);
      out->push_back(StopPreloader{});
      Start(now, out);
      return false;
    case PreloadNews::kFailed:
      out->push_back(StopPreloader{});
      return OnEnded(now, kWasEnded, news.why, out);
    case PreloadNews::kUnusable:
    case PreloadNews::kRefused:
      break;
  }
  return GiveUp(news.why, out);
}

bool Preload::OnReady(const PreloadNews& news, Effects* out) {
  if (state_ != State::kStarting) return false;
  state_ = State::kReady;
  if (learns()) {
    if (!std::exchange(has_said_that_it_learns_, true)) {
      Say(Severity::kInfo,
          absl::StrCat(
              "--preload auto: there is no valid list of what this script imports, so one worker of the first "
              "round that is forked is watched; the list ",
              options_.list.empty() ? "serves this job only, for want of HOME"
                                    : absl::StrCat("for later jobs goes to ", options_.list)),
          out);
    }
    return StopHolding();
  }
  Say(Severity::kInfo, absl::StrCat("--preload: imported ", Modules(), " in ", Took(news.took)), out);
  return StopHolding();
}

bool Preload::OnUnsafe(BootTime now, const PreloadNews& news, Effects* out) {
  if (state_ != State::kStarting) return false;
  const auto found = std::find(modules_.begin(), modules_.end(), news.module);
  if (found == modules_.end()) return GiveUp(absl::StrCat(news.module, " ", news.why), out);
  LeaveOut(news.module);
  const bool goes_on = options_.learns && !modules_.empty();
  // Nobody has asked for a module that was learned.
  Say(options_.learns ? Severity::kInfo : Severity::kWarning,
      absl::StrCat("--preload: each worker imports ", news.module, " itself, because it ", news.why,
                   goes_on ? "; until the other modules are imported workers start normally" : ""),
      out);
  if (modules_.empty()) return GiveUp("no module is left to preload", out);
  if (keeps_) out->push_back(KeepLearned{modules_});  // at once: the job may end before they are imported
  Start(now, out);
  return options_.learns && StopHolding();
}

// The rest of the package that was learned goes, too: it would import that module again.
void Preload::LeaveOut(const std::string& module) {
  const std::string package(PackageOf(module));
  std::erase_if(modules_, [&](const std::string& each) {
    return options_.learns ? PackageOf(each) == package : each == module;
  });
}

std::string Preload::Modules() const {
  if (!options_.learns) return Named(modules_);
  return absl::StrCat(modules_.size(), modules_.size() == 1 ? " learned module" : " learned modules");
}

void Preload::OnForked(BootTime now) {
  deaths_ = 0;
  if (learns()) learned_at_ = now + kLearnFor;
}

void Preload::OnLearned(BootTime now, const std::vector<std::string>& names, Effects* out) {
  if (!learns() || names.empty()) return;
  modules_ = names;
  if (keeps_) out->push_back(KeepLearned{modules_});  // at once: a short job may end before they are imported
  out->push_back(StopPreloader{});
  Start(now, out);
}

// A round that failed early may not have come to all of its imports: what it did import serves this job.
void Preload::OnRoundOver(bool succeeded, Effects* out) {
  if (learned_at_ == absl::InfiniteFuture()) return;
  keeps_ = succeeded;
  learned_at_ = absl::InfiniteFuture();
  out->push_back(ReadLearned{});
}

bool Preload::OnEnded(BootTime now, const std::string& how, const std::string& why, Effects* out) {
  if (state_ == State::kPausing) return false;
  if (++deaths_ > kMaxPreloadDeaths) {
    return GiveUp(absl::StrCat("the preloading Python ", how, " ", deaths_, " times (", why, ")"), out);
  }
  const absl::Duration pause = kPreloadRetry * (1 << (deaths_ - 1));
  Say(Severity::kWarning,
      absl::StrCat("--preload: the preloading Python ", how, " (", why, "); the next one starts in ",
                   absl::FormatDuration(pause), ", until it is ready workers start normally"),
      out);
  state_ = State::kPausing;
  retry_at_ = now + pause;
  return StopHolding();
}

bool Preload::GiveUp(const std::string& why, Effects* out) {
  Say(Severity::kWarning, absl::StrCat("--preload is off, workers start normally: ", why), out);
  out->push_back(StopPreloader{});
  state_ = State::kOff;
  return StopHolding();
}

bool Preload::StopHolding() { return std::exchange(holds_, false); }

void Preload::End(Effects* out) {
  holds_ = false;
  if (state_ != State::kOff) out->push_back(StopPreloader{});
  state_ = State::kOff;
}

std::string Preload::Holds() const {
  if (!holds_ || !has_begun_) return "";
  if (modules_.empty()) {
    return absl::StrCat("it starts the Python from which its workers are forked, for up to ",
                        absl::FormatDuration(kFirstPreloadLimit), " (--preload)");
  }
  return absl::StrCat("it imports ", Modules(), " for its workers, for up to ",
                      absl::FormatDuration(kFirstPreloadLimit), " (--preload)");
}

}  // namespace muster::host
