// Members of a round as a coordinator shows them, for tests of what people see.
#pragma once

#include <string>

#include "muster/v1/control.pb.h"

namespace muster::cli {

// The node with this rank, of 8 workers that run; it was heard a second ago.
inline void AddMember(int rank, const std::string& hostname, v1::JobView* view) {
  v1::NodeView* const node = view->add_nodes();
  node->set_hostname(hostname);
  node->set_part(v1::NodeView::PART_MEMBER);
  node->set_phase(v1::PHASE_RUNNING);
  node->set_node_rank(rank);
  node->set_first_rank(8 * rank);
  node->set_workers(8);
  node->set_live_workers(8);
  node->set_connected(true);
  node->set_heard_ms(1'000);
}

}  // namespace muster::cli
