#include "rendezvous/job_shown.h"

namespace muster::rendezvous {

JobShown::JobShown(EventLoop* loop, const v1::NodeConfig& config, CoordinatorService* service,
                   const std::function<void(const Note&)>& note)
    : service_(service) {
  if (!config.http().empty()) {
    web_.emplace(
        loop, WebPlanFrom(config), [this] { return service_->Look({}); }, note);
  }
  if (!config.events_file().empty()) file_.emplace(config.events_file(), config.run_id(), note);
  if (!config.on_event().empty()) {
    const auto& names = config.on_event_filter();
    command_.emplace(EventCommand::Plan{config.on_event(), {names.begin(), names.end()}, config.run_id()}, note);
  }
}

void JobShown::OnTick() {
  const BootTime now = EventLoop::Now();
  if (web_) web_->OnTick(now);
  if (!file_ && !command_) return;
  const v1::Events news = service_->TakeNewEvents();
  if (file_) file_->Write(now, news);
  if (command_) command_->Tell(now, news);
}

bool JobShown::IsDone() const {
  if (!file_ && !command_) return true;
  return !service_->HasNewEvents() && (!file_ || file_->IsDone()) && (!command_ || command_->IsDone());
}

}  // namespace muster::rendezvous
