#include "rendezvous/core/coordinator.h"
