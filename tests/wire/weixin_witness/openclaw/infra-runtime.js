export const resolvePreferredOpenClawTmpDir = () => process.env.OPENCLAW_STATE_DIR;
export const withFileLock = (_path, _options, work) => work();
