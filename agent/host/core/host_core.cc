#include "agent/host/core/host_core.h"
