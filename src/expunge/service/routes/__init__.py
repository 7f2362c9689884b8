"""The routes of the service, by what they are about. Each says which scopes it takes (:mod:`expunge.service.auth`)."""
