#include "agent/core/agent_core.h"
