#include "agent/host/core/output_plan.h"

namespace muster::host {

Sink SinkOf(const OutputPlan& plan, int local_rank, Streams stream, bool files) {
  const auto index = static_cast<size_t>(local_rank);
  const bool tee = index < plan.tees.size() && Has(plan.tees[index], stream);
  const bool redirect = index < plan.redirects.size() && Has(plan.redirects[index], stream);
  const bool shown = plan.shown.empty() || (index < plan.shown.size() && plan.shown[index]);
  if (files && (tee || redirect)) return tee && shown ? Sink::kShownFile : Sink::kFile;
  if (!shown) return Sink::kNull;
  return tee || plan.prefix_all || Has(plan.piped, stream) ? Sink::kPipe : Sink::kInherit;
}

bool IsMerged(const OutputPlan& plan, int local_rank, Sink out, Sink err) {
  const bool raw = !HasPrefix(plan, local_rank, Streams::kOut) && !HasPrefix(plan, local_rank, Streams::kErr);
  return plan.merged && raw && out == Sink::kPipe && err == Sink::kPipe;
}

int RanksWithPrefix(const OutputPlan& plan, int slots, Streams stream) {
  int count = 0;
  for (int local_rank = 0; local_rank < slots; ++local_rank) {
    const Sink sink = SinkOf(plan, local_rank, stream, /*files=*/true);
    const bool passes_muster = sink == Sink::kPipe || sink == Sink::kShownFile;
    if (passes_muster && HasPrefix(plan, local_rank, stream)) ++count;
  }
  return count;
}

bool HasPrefix(const OutputPlan& plan, int local_rank, Streams stream) {
  const auto index = static_cast<size_t>(local_rank);
  return plan.prefix_all || (index < plan.tees.size() && Has(plan.tees[index], stream));
}

}  // namespace muster::host
