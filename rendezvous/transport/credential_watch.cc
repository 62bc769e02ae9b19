#include "rendezvous/transport/credential_watch.h"

#include <chrono>

#include "absl/time/clock.h"
#include "base/io/bounded_call.h"

namespace muster::rendezvous {

CredentialWatch::CredentialWatch(EventLoop* loop, FirstCredentials first, Events events)
    : loop_(loop), events_(std::move(events)) {
  if (first.made.credentials == nullptr) return;
  live_ = std::make_shared<LiveCredentials>(first.made.credentials);
  if (!first.source) return;
  news_.emplace(*std::move(first.source), first.made);
  const std::optional<Texts> texts = CallWithin(kFirstReadLimit, news_->source().read);
  if (texts) Take(*texts);
  Await(kCredentialPoll, &CredentialWatch::Poll);
}

CredentialWatch::~CredentialWatch() { loop_->Cancel(timer_); }

void CredentialWatch::Await(absl::Duration pause, void (CredentialWatch::*then)()) {
  timer_ = loop_->After(pause, [this, then] { (this->*then)(); });
}

void CredentialWatch::Poll() {
  reading_since_ = EventLoop::Now();
  reading_ = CallAside(news_->source().read);
  if (!reading_) return Await(kCredentialPoll, &CredentialWatch::Poll);  // there was no thread for it
  Await(kReadTime, &CredentialWatch::Collect);
}

void CredentialWatch::Collect() {
  for (const Note& note : news_->OnTime(absl::Now())) events_.log(note);
  if (reading_->wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    Take(std::exchange(reading_, std::nullopt)->get());
    return Await(kCredentialPoll, &CredentialWatch::Poll);
  }
  if (EventLoop::Now() - reading_since_ >= kReadPatience) {
    Take(absl::DeadlineExceededError("its file system does not answer"));
  }
  Await(kCredentialPoll, &CredentialWatch::Collect);
}

void CredentialWatch::Take(const Texts& texts) {
  const CredentialNews::Outcome outcome = news_->OnRead(texts, absl::Now());
  if (outcome.next != nullptr) live_->Replace(outcome.next);
  for (const Note& note : outcome.notes) events_.log(note);
  if (outcome.next != nullptr && events_.taken) events_.taken(outcome.texts);
}

}  // namespace muster::rendezvous
