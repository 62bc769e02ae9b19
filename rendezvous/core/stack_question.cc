#include "rendezvous/core/stack_question.h"

namespace muster::rendezvous {

bool StackQuestion::Want(BootTime now, uint64_t round, bool is_answered) {
  wanted_at_ = now;
  if (is_answered && !complete_at_) complete_at_ = now;
  const BootTime serves_until = complete_at_.value_or(asked_at_ + kStackAnswers) + kStacksServe;
  if (IsOpen() && round == round_ && now < serves_until) return false;
  number_ = ++asked_;
  round_ = round;
  asked_at_ = now;
  complete_at_.reset();
  answers_.clear();
  return true;
}

void StackQuestion::Learn(const std::string& host_id, const v1::NodeSnapshot& answer) {
  if (IsOpen() && answer.number() == number_) answers_.try_emplace(host_id, answer);
}

void StackQuestion::OnTick(BootTime now) {
  if (!IsOpen() || now < wanted_at_ + kStacksKept) return;
  number_ = 0;
  answers_.clear();
}

uint64_t StackQuestion::NumberFor(const std::string& host_id) const {
  return answers_.contains(host_id) ? 0 : number_;
}

const v1::NodeSnapshot* StackQuestion::AnswerOf(const std::string& host_id) const {
  const auto found = answers_.find(host_id);
  return found == answers_.end() ? nullptr : &found->second;
}

}  // namespace muster::rendezvous
